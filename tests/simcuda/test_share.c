/*
 * test_share.c - memory between processes and between devices.
 *
 * The other process is forked before the driver starts, and starts its own.
 */
#include "sim.h"

#include <sys/socket.h>

/* What the exporter sends to the importer. */
struct parcel {
    CUipcMemHandle small, large;
    unsigned char descriptor_follows;
};

static void send_parcel(int channel, const struct parcel *parcel, int descriptor)
{
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {(void *)(uintptr_t)parcel, sizeof *parcel};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(control), &descriptor, sizeof descriptor);
    check(sendmsg(channel, &message, 0) == (ssize_t)sizeof *parcel);
}

static int receive_parcel(int channel, struct parcel *parcel)
{
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {parcel, sizeof *parcel};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    check(recvmsg(channel, &message, 0) == (ssize_t)sizeof *parcel);
    int descriptor = -1;
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    return descriptor;
}

static void wait_for_peer(int channel)
{
    char byte;
    check(read(channel, &byte, 1) == 1);
}

static void tell_peer(int channel)
{
    check(write(channel, "", 1) == 1);
}

static void import(int channel)
{
    struct parcel parcel;
    sim_start();
    int descriptor = receive_parcel(channel, &parcel);
    CUdeviceptr small;
    CUdeviceptr large;
    CUdeviceptr again;
    works(sim.cuIpcOpenMemHandle_v2(&small, parcel.small, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    works(sim.cuIpcOpenMemHandle(&large, parcel.large, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    works(sim.cuIpcOpenMemHandle_v2(&again, parcel.large, 0));
    check_number(large, again);
    check_number(1, sim_byte(small + 99));
    check_number(2, sim_byte(large + 3 * MIB - 1));
    works(sim.cuMemsetD8_v2(large, 3, 10));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemFree_v2(large));
    works(sim.cuIpcCloseMemHandle(large));
    works(sim.cuMemsetD8_v2(large, 3, 10));
    works(sim.cuIpcCloseMemHandle(large));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuIpcCloseMemHandle(large));
    works(sim.cuIpcCloseMemHandle(small));

    CUmemGenericAllocationHandle chunk;
    works(sim.cuMemImportFromShareableHandle(&chunk, (void *)(intptr_t)descriptor,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(descriptor);
    CUdeviceptr range = sim_reserve(PAGE);
    sim_map(range, PAGE, chunk);
    works(sim.cuMemRelease(chunk));
    check_number(4, sim_byte(range));
    works(sim.cuMemsetD8_v2(range, 5, PAGE));
    check_number(0, sim_device(0).in_use);
    works(sim.cuMemUnmap(range, PAGE));
    works(sim.cuMemAddressFree(range, PAGE));
    tell_peer(channel);
}

static void another_process_sees_the_bytes(void)
{
    int channels[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, channels) == 0);
    pid_t child = fork();
    if (child == 0) {
        import(channels[1]);
        exit(0);
    }
    close(channels[1]);
    sim_start();
    struct parcel parcel = {.descriptor_follows = 1};
    sim_alloc(100);
    CUdeviceptr small = sim_alloc(100);
    CUdeviceptr large = sim_alloc(3 * MIB);
    CUdeviceptr range = sim_reserve(PAGE);
    CUmemGenericAllocationHandle chunk = sim_chunk(PAGE);
    sim_map(range, PAGE, chunk);
    works(sim.cuMemsetD8_v2(small, 1, 100));
    works(sim.cuMemsetD8_v2(large, 2, 3 * MIB));
    works(sim.cuMemsetD8_v2(range, 4, PAGE));
    works(sim.cuIpcGetMemHandle(&parcel.small, small));
    works(sim.cuIpcGetMemHandle(&parcel.large, large));
    int descriptor = -1;
    works(sim.cuMemExportToShareableHandle(&descriptor, chunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    send_parcel(channels[0], &parcel, descriptor);
    wait_for_peer(channels[0]);
    check_number(3, sim_byte(large));
    check_number(5, sim_byte(range + PAGE - 1));
    int status = 1;
    check(waitpid(child, &status, 0) == child && status == 0);
}

static void within_one_process(void)
{
    sim_start();
    CUmemGenericAllocationHandle chunk = sim_chunk(PAGE);
    CUmemGenericAllocationHandle same = 0;
    int descriptor = -1;
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemExportToShareableHandle(&descriptor, chunk, CU_MEM_HANDLE_TYPE_FABRIC, 0));
    works(sim.cuMemExportToShareableHandle(&descriptor, chunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    works(sim.cuMemImportFromShareableHandle(&same, (void *)(intptr_t)descriptor,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    check(chunk != same); /* another handle, of the same memory */
    check_number(PAGE, sim_device(0).in_use);
    check_number(1, sim_device(0).handles);
    works(sim.cuMemRelease(chunk));
    check_number(PAGE, sim_device(0).in_use);
    works(sim.cuMemRelease(same));
    check_number(0, sim_device(0).in_use);
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemImportFromShareableHandle(&same, (void *)(intptr_t)descriptor,
                                                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(descriptor);

    CUmemAllocationProp properties = sim_properties(0);
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    works(sim.cuMemCreate(&chunk, PAGE, &properties, 0));
    gives(CUDA_ERROR_INVALID_VALUE,
          sim.cuMemExportToShareableHandle(&descriptor, chunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    works(sim.cuMemRelease(chunk));

    CUdeviceptr address = sim_alloc(PAGE);
    CUipcMemHandle handle;
    works(sim.cuIpcGetMemHandle(&handle, address));
    CUdeviceptr opened;
    gives(CUDA_ERROR_INVALID_CONTEXT, sim.cuIpcOpenMemHandle_v2(&opened, handle, 1));
    handle.reserved[0] ^= 1;
    gives(CUDA_ERROR_INVALID_HANDLE, sim.cuIpcOpenMemHandle_v2(&opened, handle, 1));
    works(sim.cuMemFree_v2(address));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuIpcGetMemHandle(&handle, address));
}

static void dma_buf_wants_a_uniform_range(void)
{
    sim_start();
    CUdeviceptr range = sim_reserve(3 * PAGE);
    CUmemAllocationProp properties = sim_properties(0);
    CUmemGenericAllocationHandle alike[2] = {sim_chunk(PAGE), sim_chunk(PAGE)};
    sim_map(range, PAGE, alike[0]);
    sim_map(range + PAGE, PAGE, alike[1]);
    int descriptor = -1;
    const CUmemRangeHandleType type = CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
    works(sim.cuMemGetHandleForAddressRange(&descriptor, range, 2 * PAGE, type, 0));
    check(descriptor >= 0 && close(descriptor) == 0);
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemGetHandleForAddressRange(&descriptor, range, 3 * PAGE, type, 0));
    properties.allocFlags.gpuDirectRDMACapable = 1;
    CUmemGenericAllocationHandle different;
    works(sim.cuMemCreate(&different, PAGE, &properties, 0));
    sim_map(range + 2 * PAGE, PAGE, different);
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemGetHandleForAddressRange(&descriptor, range, 3 * PAGE, type, 0));
    CUdeviceptr plain = sim_alloc(PAGE);
    works(sim.cuMemGetHandleForAddressRange(&descriptor, plain, PAGE, type, 0));
    close(descriptor);
    works(sim.cuMemFree_v2(plain));
    works(sim.cuMemUnmap(range, 3 * PAGE));
    works(sim.cuMemRelease(alike[0]));
    works(sim.cuMemRelease(alike[1]));
    works(sim.cuMemRelease(different));
    works(sim.cuMemAddressFree(range, 3 * PAGE));
}

static void devices_reach_one_another(void)
{
    works(sim.cuInit(0));
    CUcontext second = sim_use(1);
    CUcontext first = sim_use(0);
    int can = -1;
    works(sim.cuDeviceCanAccessPeer(&can, 0, 1));
    check_number(1, can);
    works(sim.cuDeviceCanAccessPeer(&can, 1, 1));
    check_number(0, can);
    gives(CUDA_ERROR_INVALID_DEVICE, sim.cuDeviceCanAccessPeer(&can, 0, 2));
    works(sim.cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
    check_number(1, can);
    gives(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, sim.cuCtxDisablePeerAccess(second));
    works(sim.cuCtxEnablePeerAccess(second, 0));
    gives(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, sim.cuCtxEnablePeerAccess(second, 0));
    gives(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, sim.cuCtxEnablePeerAccess(first, 0));
    gives(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, sim.cuCtxDisablePeerAccess(first));
    gives(CUDA_ERROR_INVALID_CONTEXT, sim.cuCtxEnablePeerAccess(NULL, 0));
    works(sim.cuCtxDisablePeerAccess(second));

    CUdeviceptr here = sim_alloc(100);
    works(sim.cuMemsetD8_v2(here, 8, 100));
    works(sim.cuCtxSetCurrent(second));
    CUdeviceptr there = sim_alloc(100);
    works(sim.cuMemcpyPeer(there, second, here, first, 100));
    check_number(8, sim_byte(there + 99));
    works(sim.cuMemsetD8_v2(there, 9, 100));
    works(sim.cuMemcpyPeerAsync(here, first, there, second, 50, NULL));
    check_number(9, sim_byte(here + 49));
    check_number(8, sim_byte(here + 50));
    gives(CUDA_ERROR_INVALID_CONTEXT, sim.cuMemcpyPeer(there, NULL, here, first, 100));
    int ordinal = -1;
    works(sim.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there));
    check_number(1, ordinal);
    works(sim.cuMemFree_v2(here));
    works(sim.cuMemFree_v2(there));
}

SIM_TEST(within_one_process, NULL)
SIM_TEST(dma_buf_wants_a_uniform_range, NULL)
SIM_TEST(devices_reach_one_another, "SIMCUDA_DEVICES=2", NULL)

static void test_another_process(void **state)
{
    (void)state;
    struct sim_outcome outcome;
    sim_run(another_process_sees_the_bytes, &outcome, "SIMCUDA_LEAKS=0", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_process),
        cmocka_unit_test(test_within_one_process),
        cmocka_unit_test(test_dma_buf_wants_a_uniform_range),
        cmocka_unit_test(test_devices_reach_one_another),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
