/*
 * empty.c - a library with nothing in it, to be mapped under other names.
 */
int tool_empty(void);

int tool_empty(void)
{
    return 0;
}
