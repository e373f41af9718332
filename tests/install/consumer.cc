/*
 * consumer.cc - the header is usable from C++.
 */
#include <gmlake/gmlake.h>

int main()
{
    return gmlake_set_tunable("no_such_tunable", "1") < 0 ? 0 : 1;
}
