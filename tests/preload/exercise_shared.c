/*
 * exercise_shared.c - memory that another process opens.
 */
#include "exercise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (6 * MIB)
#define PART  (3 * MIB + 512) /* a tensor inside the allocation */

/* Opens what it is sent, reads what the other wrote, writes something back. Each step is asked for by the other. */
static void open_it(int commands, int answers)
{
    CUipcMemHandle handle;
    CUdeviceptr base = 0;
    unsigned char byte = 0;
    start(0);
    while (read(commands, &handle, sizeof handle) == (ssize_t)sizeof handle) {
        CUresult rc = cu.cuIpcOpenMemHandle_(&base, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        if (rc == CUDA_SUCCESS && cu.cuMemcpyDtoH_(&byte, base + PART, 1) == CUDA_SUCCESS) {
            cu.cuMemsetD8_(base + PART, (unsigned char)(byte + 1), 1);
            rc = cu.cuIpcCloseMemHandle_(base);
        }
        if (write(answers, &rc, sizeof rc) != (ssize_t)sizeof rc) {
            exit(1);
        }
    }
}

/* As vLLM and torch.multiprocessing do it: the handle of the allocation, and an offset. */
static void share(CUdeviceptr address, CUipcMemHandle *handle, int commands, int answers)
{
    CUdeviceptr base = 0;
    CUresult opened = CUDA_ERROR_UNKNOWN;
    unsigned char byte = 0;
    memset(handle, 0, sizeof *handle);
    say("RANGE_START_ADDR", cu.cuPointerGetAttribute_(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + PART));
    say_if("the range begins at the block", base == address);
    need("cuMemsetD8", cu.cuMemsetD8_(address + PART, 0x40, 1));
    CUresult rc = cu.cuIpcGetMemHandle_(handle, address + PART);
    say("cuIpcGetMemHandle", rc);
    if (rc != CUDA_SUCCESS) {
        return;
    }
    if (write(commands, handle, sizeof *handle) != (ssize_t)sizeof *handle ||
        read(answers, &opened, sizeof opened) != (ssize_t)sizeof opened) {
        exit(1);
    }
    say("opened and closed by the other process", opened);
    say("cuMemcpyDtoH", cu.cuMemcpyDtoH_(&byte, address + PART, 1));
    printf("what the other process wrote: %d\n", byte);
}

void scenario_ipc(void)
{
    int commands[2];
    int answers[2];
    CUipcMemHandle first;
    CUipcMemHandle second;
    CUdeviceptr address;
    if (pipe(commands) != 0 || pipe(answers) != 0) {
        exit(1);
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(commands[1]);
        open_it(commands[0], answers[1]);
        _exit(0);
    }
    close(commands[0]);
    start(0);
    need("cuMemAlloc", cu.cuMemAlloc_(&address, BYTES));
    share(address, &first, commands[1], answers[0]);
    share(address, &second, commands[1], answers[0]);
    say_if("one handle an allocation", memcmp(&first, &second, sizeof first) == 0);
    say("cuMemFree", cu.cuMemFree_(address));
    need("cuMemAlloc", cu.cuMemAlloc_(&address, BYTES));
    share(address, &second, commands[1], answers[0]);
    say_if("another handle for another allocation",
           memcmp(&first, &second, sizeof first) != 0 || first.reserved[0] == 0);
    say("cuMemFree", cu.cuMemFree_(address));
    need("cuMemAllocAsync", cu.cuMemAllocAsync_(&address, BYTES, NULL));
    say("cuIpcGetMemHandle of memory of a pool", cu.cuIpcGetMemHandle_(&second, address));
    say("cuMemFreeAsync", cu.cuMemFreeAsync_(address, NULL));
    close(commands[1]);
    waitpid(child, NULL, 0);
}
