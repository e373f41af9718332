/*
 * test_pointer.c - what each kind of memory answers: the table measured on the H200, attribute by attribute.
 */
#include "sim.h"

/* One of each kind, in one process. */
static struct {
    CUcontext context;
    CUdeviceptr plain, pooled, mapped;
    CUdeviceptr reservation;
    CUmemoryPool pool;
    CUmemGenericAllocationHandle chunk;
} have;

#define PLAIN_SIZE  (3 * PAGE)
#define POOLED_SIZE (5 * MIB)

static void make_one_of_each(void)
{
    works(sim.cuInit(0));
    have.context = sim_use(0);
    have.plain = sim_alloc(PLAIN_SIZE);
    works(sim.cuMemAllocAsync(&have.pooled, POOLED_SIZE, NULL));
    works(sim.cuDeviceGetDefaultMemPool(&have.pool, 0));
    have.reservation = sim_reserve(64 * MIB);
    CUmemAllocationProp properties = sim_properties(0);
    properties.allocFlags.gpuDirectRDMACapable = 1;
    works(sim.cuMemCreate(&have.chunk, PAGE, &properties, 0));
    for (size_t i = 0; i < 4; i++) {
        sim_map(have.reservation + i * PAGE, PAGE, have.chunk);
    }
    have.mapped = have.reservation + PAGE;
}

static void drop_them(void)
{
    works(sim.cuMemFree_v2(have.plain));
    works(sim.cuMemFree_v2(have.pooled));
    works(sim.cuMemUnmap(have.reservation, 4 * PAGE));
    works(sim.cuMemRelease(have.chunk));
    works(sim.cuMemAddressFree(have.reservation, 64 * MIB));
}

/* The answer of the singular form, checked against the plural one. */
static unsigned long long ask(CUdeviceptr address, CUpointer_attribute attribute, size_t width)
{
    unsigned long long one = 0;
    unsigned long long many = 0;
    void *data[] = {&many};
    works(sim.cuPointerGetAttribute(&one, attribute, address));
    works(sim.cuPointerGetAttributes(1, &attribute, data, address));
    unsigned long long mask = width == 8 ? ~0ull : (1ull << (8 * width)) - 1;
    check_number(one & mask, many & mask);
    check_number(0, one & ~mask);
    return one;
}

#define ROW(attribute, width, plain_, pooled_, mapped_)                                                                \
    check_number(plain_, ask(have.plain + 512, CU_POINTER_ATTRIBUTE_##attribute, width));                              \
    check_number(pooled_, ask(have.pooled + 512, CU_POINTER_ATTRIBUTE_##attribute, width));                            \
    check_number(mapped_, ask(have.mapped + 512, CU_POINTER_ATTRIBUTE_##attribute, width))

static void the_table(void)
{
    make_one_of_each();
    CUdeviceptr step = have.pooled - have.pooled % PAGE; /* the first block of its step */
    ROW(CONTEXT, 8, (uintptr_t)have.context, 0, 0);
    ROW(MEMORY_TYPE, 4, 2, 2, 2);
    ROW(DEVICE_POINTER, 8, have.plain + 512, have.pooled + 512, have.mapped + 512);
    ROW(DEVICE_ORDINAL, 4, 0, 0, 0);
    ROW(MAPPED, 4, 1, 1, 1);
    ROW(ACCESS_FLAGS, 4, 3, 3, 3);
    ROW(SYNC_MEMOPS, 4, 0, 0, 0);
    ROW(IS_MANAGED, 4, 0, 0, 0);
    ROW(IS_LEGACY_CUDA_IPC_CAPABLE, 4, 1, 0, 0);
    ROW(RANGE_START_ADDR, 8, have.plain, have.pooled, have.reservation);
    ROW(RANGE_SIZE, 8, PLAIN_SIZE, POOLED_SIZE, 64 * MIB);
    ROW(ALLOWED_HANDLE_TYPES, 8, 0, 0, 1);
    ROW(IS_GPU_DIRECT_RDMA_CAPABLE, 4, 1, 0, 1);
    ROW(MEMPOOL_HANDLE, 8, 0, (uintptr_t)have.pool, 0);
    ROW(MAPPING_SIZE, 8, PLAIN_SIZE, 32 * MIB, PAGE);
    ROW(MAPPING_BASE_ADDR, 8, have.plain, step, have.mapped);
    ROW(IS_HW_DECOMPRESS_CAPABLE, 4, 1, 0, 0);

    CUdeviceptr base;
    size_t size;
    works(sim.cuMemGetAddressRange_v2(&base, &size, have.mapped + 512));
    check(base == have.mapped && size == PAGE);
    works(sim.cuMemGetAddressRange_v2(&base, &size, have.pooled + 512));
    check(base == have.pooled && size == POOLED_SIZE);

    CUmemGenericAllocationHandle handle;
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)have.plain));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)have.pooled));
    CUipcMemHandle ipc;
    works(sim.cuIpcGetMemHandle(&ipc, have.plain));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuIpcGetMemHandle(&ipc, have.pooled));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuIpcGetMemHandle(&ipc, have.mapped));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemFree_v2(have.mapped));
    drop_them();
}

static void host_pointer_and_settings(void)
{
    make_one_of_each();
    unsigned on = 1;
    CUpointer_attribute memops = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
    works(sim.cuPointerSetAttribute(&on, memops, have.plain));
    works(sim.cuPointerSetAttribute(&on, memops, have.pooled));
    gives(CUDA_ERROR_NOT_SUPPORTED, sim.cuPointerSetAttribute(&on, memops, have.mapped));
    ROW(SYNC_MEMOPS, 4, 1, 1, 0);
    on = 0;
    works(sim.cuPointerSetAttribute(&on, memops, have.plain));
    ROW(SYNC_MEMOPS, 4, 0, 1, 0);
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_BUFFER_ID, have.plain));

    void *host = &host;
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_HOST_POINTER;
    void *data[] = {&host};
    const CUdeviceptr kinds[] = {have.plain, have.pooled, have.mapped};
    for (size_t i = 0; i < 3; i++) {
        gives(CUDA_ERROR_INVALID_VALUE, sim.cuPointerGetAttribute(&host, attribute, kinds[i]));
        host = &host;
        works(sim.cuPointerGetAttributes(1, &attribute, data, kinds[i]));
        check(host == NULL);
    }

    void *pinned;
    works(sim.cuMemAllocHost_v2(&pinned, 100));
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)pinned;
    check_number((uintptr_t)pinned + 5, ask(address + 5, CU_POINTER_ATTRIBUTE_HOST_POINTER, 8));
    check_number(CU_MEMORYTYPE_HOST, ask(address, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 4));
    check_number((uintptr_t)have.context, ask(address, CU_POINTER_ATTRIBUTE_CONTEXT, 8));
    works(sim.cuMemFreeHost(pinned));
    drop_them();
}

static void ids_are_never_used_twice(void)
{
    make_one_of_each();
    unsigned long long before = ask(have.plain, CU_POINTER_ATTRIBUTE_BUFFER_ID, 8);
    check(before != ask(have.pooled, CU_POINTER_ATTRIBUTE_BUFFER_ID, 8));
    check(before != ask(have.mapped, CU_POINTER_ATTRIBUTE_BUFFER_ID, 8));
    works(sim.cuMemFree_v2(have.plain));
    have.plain = sim_alloc(PLAIN_SIZE);
    check(before != ask(have.plain, CU_POINTER_ATTRIBUTE_BUFFER_ID, 8));

    unsigned long long block = ask(have.mapped, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, 8);
    check_number(block, ask(have.mapped + PAGE, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, 8));
    works(sim.cuMemUnmap(have.mapped, PAGE));
    CUmemGenericAllocationHandle other = sim_chunk(PAGE);
    sim_map(have.mapped, PAGE, other);
    works(sim.cuMemRelease(other));
    check(block != ask(have.mapped, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, 8));
    drop_them();
}

static void unknown_pointers(void)
{
    make_one_of_each();
    static char outside;
    const CUdeviceptr unknown[] = {0, 0x1000, (CUdeviceptr)(uintptr_t)&outside};
    for (size_t i = 0; i < GM_ARRAY_LENGTH(unknown); i++) {
        unsigned type = 9;
        int ordinal = 9;
        CUcontext context = have.context;
        CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                            CU_POINTER_ATTRIBUTE_CONTEXT};
        void *data[] = {&type, &ordinal, &context};
        gives(CUDA_ERROR_INVALID_VALUE, sim.cuPointerGetAttribute(&type, attributes[0], unknown[i]));
        works(sim.cuPointerGetAttributes(3, attributes, data, unknown[i]));
        check(type == 0 && ordinal == CU_DEVICE_INVALID && context == NULL);
    }
    CUpointer_attribute wrong = (CUpointer_attribute)99;
    unsigned long long value;
    void *data[] = {&value};
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuPointerGetAttributes(1, &wrong, data, have.plain));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuPointerGetAttribute(&value, wrong, have.plain));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuPointerGetAttributes(0, &wrong, data, have.plain));
    /* reserved, nothing mapped: only the plural form knows of the reservation */
    const CUdeviceptr reserved = have.reservation + 32 * MIB;
    CUpointer_attribute range[] = {CU_POINTER_ATTRIBUTE_MAPPED, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_HOST_POINTER};
    unsigned is_mapped = 1;
    CUdeviceptr start = 0;
    size_t size = 0;
    CUdeviceptr host = 0;
    void *into[] = {&is_mapped, &start, &size, &host};
    works(sim.cuPointerGetAttributes(4, range, into, reserved));
    check(is_mapped == 0 && start == have.reservation && size == 64 * MIB && host == reserved);
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MAPPED, reserved));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, reserved));
    drop_them();
}

SIM_TEST(the_table, NULL)
SIM_TEST(host_pointer_and_settings, NULL)
SIM_TEST(ids_are_never_used_twice, NULL)
SIM_TEST(unknown_pointers, NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_table),
        cmocka_unit_test(test_host_pointer_and_settings),
        cmocka_unit_test(test_ids_are_never_used_twice),
        cmocka_unit_test(test_unknown_pointers),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
