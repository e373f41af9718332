/*
 * steps_questions.c - what a driver says about memory: attributes, ranges, room, sharing.
 */
#include "steps.h"

#include <string.h>
#include <unistd.h>

#define FIRST  CU_POINTER_ATTRIBUTE_CONTEXT
#define LAST   CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE
#define UNSAID 0xaaaaaaaaaaaaaaaaull

union answer {
    unsigned long long number;
    CUcontext context;
    CUmemoryPool pool;
    CUdeviceptr address;
    size_t size;
    CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
};

/* The answer in words; one that was not given is none. */
static void say_answer(int attribute, const union answer *answer, CUdeviceptr address, const struct block *block)
{
    CUdeviceptr base = block == NULL ? address : block->address;
    if (answer->number == UNSAID) {
        say("    attribute %d: unsaid", attribute);
        return;
    }
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        say("    attribute %d: %s", attribute, name_of_context(answer->context));
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        say("    attribute %d: %s", attribute, answer->address == address ? "itself" : "another");
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        say("    attribute %d: %lu", attribute,
            answer->number == 0 ? 0
                                : class_of_id(attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID ? BUFFERS
                                              : block != NULL && block->kind == MAPPED    ? CHUNKS
                                                                                          : ALLOCATIONS,
                                              answer->number));
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        say("    attribute %d: %s", attribute, name_of_pool(answer->pool));
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        say("    attribute %d: %lld before", attribute, (long long)(base - answer->address));
        break;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        if (block != NULL && (block->kind == ORDERED || block->kind == GRAPH)) {
            say("    attribute %d: said", attribute); /* a step of the pool, or the block: its own affair */
        } else if (attribute == CU_POINTER_ATTRIBUTE_MAPPING_SIZE) {
            say("    attribute %d: %zu", attribute, answer->size);
        } else {
            say("    attribute %d: %lld before", attribute, (long long)(base - answer->address));
        }
        break;
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        say("    attribute %d:", attribute);
        say_related("hw_decompress", answer->number & 0xffffffff);
        break;
    default:
        say("    attribute %d: %llx", attribute, answer->number);
    }
}

static void ask_attribute(int attribute, CUdeviceptr address, const struct block *block)
{
    union answer answer;
    memset(&answer, 0xaa, sizeof answer);
    CUresult rc = CALL(cuPointerGetAttribute, &answer, (CUpointer_attribute)attribute, address);
    say("    cuPointerGetAttribute(%d): %d", attribute, (int)rc);
    if (rc == CUDA_SUCCESS) {
        say_answer(attribute, &answer, address, block);
    }
}

static void ask_attributes(CUdeviceptr address, const struct block *block)
{
    union answer answers[8];
    void *data[8];
    CUpointer_attribute attributes[8];
    unsigned count = (unsigned)draw(LENGTH(answers) + 1);
    memset(answers, 0xaa, sizeof answers);
    for (unsigned i = 0; i < count; i++) {
        bool wrong = chance(2);
        attributes[i] = (CUpointer_attribute)(wrong ? 22 + draw(3) : FIRST + draw(LAST));
        data[i] = chance(1) ? NULL : (void *)&answers[i];
    }
    CUresult rc = CALL(cuPointerGetAttributes, count, attributes, data, address);
    say("    cuPointerGetAttributes(%u): %d", count, (int)rc);
    for (unsigned i = 0; rc == CUDA_SUCCESS && i < count; i++) {
        say_answer((int)attributes[i], &answers[i], address, block);
    }
}

/* An address in the block, often its first. */
static CUdeviceptr somewhere_in(const struct block *block)
{
    return block->address + (chance(60) ? 0 : draw(block->bytes));
}

void ask_everything(CUdeviceptr address, const struct block *block)
{
    for (int attribute = FIRST; attribute <= (int)LAST; attribute++) {
        ask_attribute(attribute, address, block);
    }
    ask_attributes(address, block);
}

void ask_gone(CUdeviceptr address, bool for_good)
{
    union answer answer;
    CUdeviceptr base = 4711;
    size_t size = 4712;
    void *data = &answer;
    CUpointer_attribute attribute = (CUpointer_attribute)(FIRST + draw(LAST));
    memset(&answer, 0xaa, sizeof answer);
    ask_attribute((int)attribute, address, NULL);
    say("    one of several: %d", (int)CALL(cuPointerGetAttributes, 1, &attribute, &data, address));
    say("    %llx", answer.number == address ? 1 : answer.number);
    if (for_good) {
        say("    range: %d", (int)CALL(cuMemGetAddressRange_v2, &base, &size, address));
    }
    say("    freed again: %d", (int)CALL(cuMemFree_v2, address));
}

void step_ask(void)
{
    int slot = pick_block(ANY_BLOCK | ANY_OF(GRAPH));
    if (slot < 0) {
        return;
    }
    const struct block *block = &world.blocks[slot];
    CUdeviceptr address = somewhere_in(block);
    say("  about block %d + %zu", slot, (size_t)(address - block->address));
    if (chance(20)) {
        ask_everything(address, block);
    } else {
        ask_attributes(address, block);
    }
}

void step_ask_one(void)
{
    int slot = pick_block(ANY_BLOCK | ANY_OF(GRAPH));
    int attribute = (int)draw(LAST + 2);
    if (slot < 0) {
        return;
    }
    const struct block *block = &world.blocks[slot];
    CUdeviceptr address = somewhere_in(block);
    say("  about block %d + %zu", slot, (size_t)(address - block->address));
    ask_attribute(attribute, address, block);
    if (chance(10)) {
        say("    nowhere to put it: %d",
            (int)CALL(cuPointerGetAttribute, NULL, (CUpointer_attribute)attribute, block->address));
    }
    if (chance(10)) {
        static const CUdeviceptr others[] = {0, 1, 0x1000, (CUdeviceptr)1 << 46};
        ask_attribute(attribute, others[draw(LENGTH(others))], NULL);
    }
}

void step_ask_range(void)
{
    int slot = pick_block(ANY_BLOCK | ANY_OF(GRAPH));
    CUdeviceptr base = 0;
    size_t size = 0;
    bool wants_base = chance(85);
    bool wants_size = chance(85);
    if (slot < 0) {
        return;
    }
    const struct block *block = &world.blocks[slot];
    CUdeviceptr address = somewhere_in(block);
    if (block->kind != HOST && block->bytes % 512 != 0 && chance(20)) {
        address = block->address + block->bytes; /* behind its end, where nothing else can be */
    }
    CUresult rc = CALL(cuMemGetAddressRange_v2, wants_base ? &base : NULL, wants_size ? &size : NULL, address);
    say("  cuMemGetAddressRange_v2(block %d + %zu): %d", slot, (size_t)(address - block->address), (int)rc);
    if (rc == CUDA_SUCCESS) {
        say("    %lld before, %zu bytes", wants_base ? (long long)(block->address - base) : 0, size);
    }
}

void step_ask_room(void)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    uint64_t live = 0;
    int device = current_device();
    bool wants_free = chance(85);
    CUresult rc = CALL(cuMemGetInfo_v2, wants_free ? &free_bytes : NULL, chance(85) ? &total_bytes : NULL);
    say("  cuMemGetInfo_v2: %d, total %zu", (int)rc, total_bytes);
    if (rc != CUDA_SUCCESS || !wants_free || total_bytes == 0) {
        return;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        const struct block *block = &world.blocks[i];
        live += (ANY_OF(block->kind) & ANY_DEVICE) != 0 && block->device == device ? block->bytes : 0;
    }
    say("    live blocks fit what is not free: %d", live <= total_bytes - free_bytes);
    say_related("free_bytes", free_bytes);
}

void step_ask_sharing(void)
{
    int slot = pick_block(ANY_BLOCK);
    if (slot < 0) {
        return;
    }
    const struct block *block = &world.blocks[slot];
    CUdeviceptr address = somewhere_in(block);
    CUmemGenericAllocationHandle handle = 0;
    CUipcMemHandle ipc;
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)draw(world.devices)};
    unsigned long long flags = 0;
    int descriptor = -1;
    CUresult rc;
    switch (draw(4)) {
    case 0:
        rc = CALL(cuMemRetainAllocationHandle, &handle, (void *)(uintptr_t)address);
        say("  cuMemRetainAllocationHandle(block %d): %d", slot, (int)rc);
        if (rc == CUDA_SUCCESS) {
            (void)CALL(cuMemRelease, handle);
        }
        break;
    case 1:
        rc = CALL(cuIpcGetMemHandle, chance(95) ? &ipc : NULL, address);
        say("  cuIpcGetMemHandle(block %d)", slot);
        say_related("ipc", (unsigned)rc);
        break;
    case 2:
        rc = CALL(cuMemGetHandleForAddressRange, &descriptor, block->address, block->bytes,
                  CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
        say("  cuMemGetHandleForAddressRange(block %d): %d", slot, (int)rc);
        if (rc == CUDA_SUCCESS) {
            close(descriptor);
        }
        break;
    default:
        rc = CALL(cuMemGetAccess, &flags, &location, address);
        say("  cuMemGetAccess(block %d)", slot);
        say_related(block->kind == MAPPED ? "same" : "access", ((unsigned)rc << 8) + flags);
    }
}

void step_set_attribute(void)
{
    int slot = pick_block(ANY_BLOCK);
    unsigned on = chance(70);
    CUpointer_attribute attribute =
        chance(90) ? CU_POINTER_ATTRIBUTE_SYNC_MEMOPS : (CUpointer_attribute)(FIRST + draw(LAST));
    if (slot < 0) {
        return;
    }
    const struct block *block = &world.blocks[slot];
    CUdeviceptr address = chance(95) ? somewhere_in(block) : 0x1000;
    CUresult rc = CALL(cuPointerSetAttribute, chance(97) ? &on : NULL, attribute, address);
    say("  cuPointerSetAttribute(%u, %d, block %d): %d", on, (int)attribute, slot, (int)rc);
    ask_attribute(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, somewhere_in(block), block);
}
