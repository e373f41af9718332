/*
 * exercise_memory.c - what memory is: sizes, contents, answers, room.
 */
#include "exercise.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

void scenario_plain(void)
{
    static const size_t sizes[] = {1, 512, 513, 100000, MIB, 3 * MIB, 20 * MIB + 4096};
    CUdeviceptr blocks[LENGTH(sizes)];
    CUdeviceptr base = 0;
    size_t size = 0;
    start(0);
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        need("cuMemAlloc", cu.cuMemAlloc_(&blocks[i], sizes[i]));
        say_if("aligned", blocks[i] % 256 == 0);
        use("holds its bytes", blocks[i], sizes[i]);
        say("cuMemGetAddressRange", cu.cuMemGetAddressRange_(&base, &size, blocks[i] + sizes[i] - 1));
        say_if("the range is the block", base == blocks[i] && size == sizes[i]);
    }
    say("range without size", cu.cuMemGetAddressRange_(&base, NULL, blocks[1]));
    say("range without base", cu.cuMemGetAddressRange_(NULL, &size, blocks[1]));
    say("no bytes", cu.cuMemAlloc_(&base, 0));
    say("nowhere to put it", cu.cuMemAlloc_(NULL, MIB));
    say("more than there is", cu.cuMemAlloc_(&base, (size_t)1 << 46));
    say("free NULL", cu.cuMemFree_(0));
    say("free inside a block", cu.cuMemFree_(blocks[6] + MIB));
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        say("cuMemFree", cu.cuMemFree_(blocks[i]));
    }
    say("free twice", cu.cuMemFree_(blocks[5]));
    say("free what nobody gave", cu.cuMemFree_(4096));
}

/* Prints an answer about @address: what does not depend on where the allocator puts things. */
static void ask(CUpointer_attribute attribute, CUdeviceptr address, CUdeviceptr block, size_t bytes)
{
    union {
        unsigned long long number;
        void *pointer;
        size_t size;
    } one, many;
    void *data = &many;
    one.number = many.number = 0;
    CUresult rc = cu.cuPointerGetAttribute_(&one, attribute, address);
    CUresult rc_many = cu.cuPointerGetAttributes_(1, &attribute, &data, address);
    printf("attribute %d: %d and %d, ", (int)attribute, (int)rc, (int)rc_many);
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        printf("%s\n", one.pointer == context ? "the context" : one.pointer == NULL ? "none" : "another one");
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        printf("%lld from the block\n", rc == CUDA_SUCCESS ? (long long)(one.number - block) : 0);
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        printf("%s\n", one.size == bytes ? "the block's" : "another");
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        printf("%s\n", one.pointer != NULL ? "a pool" : "none");
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: /* any number will do */
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: /* of a pool: its own affair */
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        printf("\n");
        break;
    default:
        printf("%llu\n", one.number);
    }
    say_if("both forms agree", one.number == many.number || rc != CUDA_SUCCESS);
}

/* HW_DECOMPRESS is left out: memory of ours does not have it. */
static void ask_all(const char *what, CUdeviceptr address, CUdeviceptr block, size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    printf("%s\n", what);
    for (int i = CU_POINTER_ATTRIBUTE_CONTEXT; i < CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE; i++) {
        if (i != CU_POINTER_ATTRIBUTE_P2P_TOKENS) {
            ask((CUpointer_attribute)i, address, block, bytes);
        }
    }
    say("cuMemRetainAllocationHandle", cu.cuMemRetainAllocationHandle_(&handle, (void *)(uintptr_t)address));
}

void scenario_attributes(void)
{
    CUdeviceptr plain_block;
    CUdeviceptr pool_block;
    CUdeviceptr base;
    size_t size;
    start(0);
    need("cuMemAlloc", cu.cuMemAlloc_(&plain_block, 5 * MIB));
    need("cuMemAllocAsync", cu.cuMemAllocAsync_(&pool_block, 5 * MIB, NULL));
    ask_all("plain", plain_block, plain_block, 5 * MIB);
    ask_all("inside a plain one", plain_block + 3 * MIB, plain_block, 5 * MIB);
    ask_all("from the pool", pool_block, pool_block, 5 * MIB);
    ask_all("nobody's", 4096, 4096, 0);
    say("cuMemFree", cu.cuMemFree_(plain_block));
    ask_all("freed", plain_block, plain_block, 0);
    say("range of a freed one", cu.cuMemGetAddressRange_(&base, &size, plain_block));
    say("cuMemFreeAsync", cu.cuMemFreeAsync_(pool_block, NULL));
}

/* Many blocks at a time, freed in another order. */
void scenario_many(void)
{
    enum { COUNT = 3000 };
    static CUdeviceptr blocks[COUNT];
    CUcontext owner;
    int wrong = 0;
    start(0);
    for (int i = 0; i < COUNT; i++) {
        need("cuMemAlloc", cu.cuMemAlloc_(&blocks[i], 600 + (size_t)i * 7));
    }
    for (int step = 1; step <= 2; step++) {
        for (int i = 0; i < COUNT; i += step) {
            owner = NULL;
            wrong += cu.cuPointerGetAttribute_(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, blocks[i]) != CUDA_SUCCESS ||
                     owner != context;
        }
        for (int i = 1; step == 1 && i < COUNT; i += 2) {
            wrong += cu.cuMemFree_(blocks[i]) != CUDA_SUCCESS;
        }
    }
    for (int i = 0; i < COUNT; i += 2) {
        wrong += cu.cuMemFree_(blocks[COUNT - 2 - i]) != CUDA_SUCCESS;
    }
    printf("wrong: %d\n", wrong);
}

void scenario_info(void)
{
    size_t before = 0;
    size_t after = 0;
    size_t total = 0;
    CUdeviceptr address;
    start(0);
    say("cuMemGetInfo", cu.cuMemGetInfo_(&before, &total));
    need("cuMemAlloc", cu.cuMemAlloc_(&address, 64 * MIB));
    say("cuMemGetInfo", cu.cuMemGetInfo_(&after, &total));
    say_if("less is free", after + 64 * MIB <= before && after + 80 * MIB > before);
    say("cuMemFree", cu.cuMemFree_(address));
    say("cuCtxSynchronize", cu.cuCtxSynchronize_());
    say("without total", cu.cuMemGetInfo_(&after, NULL));
    say_if("as much is free as before", after + 2 * MIB >= before && after <= before);
    say_if("not more than there is", after <= total);
    total = 0;
    say("without free", cu.cuMemGetInfo_(NULL, &total));
    say_if("total", total >= before);
    say("with nothing", cu.cuMemGetInfo_(NULL, NULL));
}

/* Virtual memory that the program manages itself is nothing of ours. */
void scenario_foreign(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties;
    CUdeviceptr range;
    CUdeviceptr base = 0;
    size_t size = 0;
    start(0);
    memset(&properties, 0, sizeof properties);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    say("cuMemCreate", cu.cuMemCreate_(&handle, 2 * MIB, &properties, 0));
    say("cuMemAddressReserve", cu.cuMemAddressReserve_(&range, 8 * MIB, 0, 0, 0));
    say("cuMemMap", cu.cuMemMap_(range, 2 * MIB, 0, handle, 0));
    say("cuMemGetAddressRange", cu.cuMemGetAddressRange_(&base, &size, range + MIB));
    say_if("the range is the mapping", base == range && size == 2 * MIB);
    say("cuMemFree of it", cu.cuMemFree_(range));
    say("cuMemFreeAsync of it", cu.cuMemFreeAsync_(range, NULL));
    say("cuMemUnmap", cu.cuMemUnmap_(range, 2 * MIB));
    say("cuMemRelease", cu.cuMemRelease_(handle));
    say("cuMemAddressFree", cu.cuMemAddressFree_(range, 8 * MIB));
}

/* Idle memory of ours makes room for what only the driver can give. */
void scenario_room(void)
{
    CUdeviceptr address;
    CUdeviceptr pitched;
    size_t pitch;
    size_t free_bytes = 0;
    size_t total = 0;
    start(0);
    need("cuMemGetInfo", cu.cuMemGetInfo_(&free_bytes, &total));
    size_t most = free_bytes / 4 * 3;
    need("cuMemAlloc", cu.cuMemAlloc_(&address, most));
    say("cuMemFree", cu.cuMemFree_(address));
    say("cuMemAllocPitch", cu.cuMemAllocPitch_(&pitched, &pitch, MIB, most / MIB, 4));
    say("cuMemFree", cu.cuMemFree_(pitched));
    need("cuMemAlloc", cu.cuMemAlloc_(&address, most));
    say("cuMemFree", cu.cuMemFree_(address));
}
