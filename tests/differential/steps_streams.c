/*
 * steps_streams.c - streams, events and captures.
 */
#include "steps.h"

#include <string.h>

void step_create_stream(void)
{
    int slot = 0;
    unsigned flags = chance(40) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    CUstream stream = NULL;
    while (slot < STREAMS && world.streams[slot].handle != NULL) {
        slot++;
    }
    if (slot == STREAMS) {
        return;
    }
    CUresult rc = CALL(cuStreamCreate, &stream, flags);
    say("  cuStreamCreate(%u) as %d: %d", flags, slot, (int)rc);
    if (rc == CUDA_SUCCESS) {
        world.streams[slot].handle = stream;
        world.streams[slot].context = world.current;
    }
}

/* Blocks of a stream that ends are its context's legacy stream's, once its work is done. */
void step_destroy_stream(void)
{
    int slot = pick_stream();
    if (slot < 0) {
        return;
    }
    settle((struct place){slot, world.streams[slot].context});
    for (size_t i = 0; i < BLOCKS; i++) {
        struct place *owner = &world.blocks[i].owner;
        owner->stream = owner->stream == slot ? STREAM_LEGACY : owner->stream;
    }
    say("  cuStreamDestroy_v2(%d): %d", slot, (int)CALL(cuStreamDestroy_v2, world.streams[slot].handle));
    world.streams[slot].handle = NULL;
}

void step_wait(void)
{
    struct place place = pick_place();
    int form;
    CUstream stream = handle_of(place, &form);
    switch (draw(3)) {
    case 0:
        say("  cuCtxSynchronize: %d", (int)CALL(cuCtxSynchronize_v2, NULL));
        break;
    case 1:
        say("  cuStreamSynchronize(%d): %d", place.stream, (int)CALL_FORM(form, cuStreamSynchronize, stream));
        break;
    default:
        say("  cuStreamQuery(%d)", place.stream);
        say_related("ready", (unsigned)CALL_FORM(form, cuStreamQuery, stream));
    }
}

static void create_event(void)
{
    int slot = 0;
    CUevent event = NULL;
    while (slot < EVENTS && world.events[slot].handle != NULL) {
        slot++;
    }
    if (slot == EVENTS) {
        return;
    }
    CUresult rc = CALL(cuEventCreate, &event, chance(50) ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT);
    say("  cuEventCreate as %d: %d", slot, (int)rc);
    if (rc == CUDA_SUCCESS) {
        world.events[slot].handle = event;
        world.events[slot].context = world.current;
    }
}

void step_event(void)
{
    int slot = pick_event();
    struct place place = pick_place();
    int form;
    CUstream stream = handle_of(place, &form);
    if (slot < 0 || chance(20)) {
        create_event();
        return;
    }
    CUevent event = world.events[slot].handle;
    switch (draw(5)) {
    case 0:
        say("  cuEventRecord(%d, stream %d): %d", slot, place.stream,
            (int)CALL_FORM(form, cuEventRecord, event, stream));
        break;
    case 1:
        say("  cuEventQuery(%d)", slot);
        say_related("ready", (unsigned)CALL(cuEventQuery, event));
        break;
    case 2:
        say("  cuEventSynchronize(%d): %d", slot, (int)CALL(cuEventSynchronize, event));
        break;
    case 3:
        say("  cuStreamWaitEvent(stream %d, %d): %d", place.stream, slot,
            (int)CALL_FORM(form, cuStreamWaitEvent, stream, event, 0));
        break;
    default:
        say("  cuEventDestroy_v2(%d): %d", slot, (int)CALL(cuEventDestroy_v2, event));
        world.events[slot].handle = NULL;
    }
}

/* --- capture ------------------------------------------------------------------------------------------------------ */

/* What the captured work allocated, for as long as its graph lives. */
static void allocate_in_graph(CUstream stream)
{
    int slot = pick_free_block();
    size_t bytes = draw_size();
    CUdeviceptr address = 0;
    if (slot < 0 ||
        world.tight) { /* graphs' memory comes in the driver's steps of 32 MB, which we leave less room for */
        return;
    }
    say("    cuMemAllocAsync(%zu, captured) into block %d", bytes, slot);
    CUresult rc = CALL_FORM(draw(2), cuMemAllocAsync, &address, bytes, stream);
    bool must_fail = allocation_must_fail();
    say_related("room", (unsigned)rc);
    if (rc == CUDA_SUCCESS && !must_fail) {
        note_block(slot, GRAPH, address, bytes, current_device(), (struct place){STREAM_LEGACY, world.current});
    }
}

static void work_while_capturing(CUstream stream)
{
    int block = pick_block(ANY_ALLOCATED);
    int event = pick_event();
    CUdeviceptr address = 0;
    size_t bytes = 0;
    cuuint64_t value = 0;
    CUresult rc;
    switch (draw(10)) {
    case 0:
    case 1:
        allocate_in_graph(stream);
        break;
    case 2:
        block = pick_block(ANY_OF(GRAPH));
        if (block >= 0) {
            rc = CALL(cuMemFreeAsync, world.blocks[block].address, stream);
            say("    cuMemFreeAsync(block %d, captured): %d", block, (int)rc);
            world.blocks[block].kind = rc == CUDA_SUCCESS ? ABSENT : GRAPH;
        }
        break;
    case 3:
        bytes = draw_size();
        say("    cuMemAlloc_v2");
        say_related("fill", 100); /* a capture forbids the wait that freed memory of ours is owed */
        if (allocation_stands(CALL(cuMemAlloc_v2, &address, bytes), &address)) {
            say("    cuMemFree_v2: %d", (int)CALL(cuMemFree_v2, address));
        }
        break;
    case 4:
    case 5:
        say("    cuMemGetInfo_v2: %d", (int)CALL(cuMemGetInfo_v2, &bytes, &bytes));
        break;
    case 6:
        rc = CALL(cuMemPoolGetAttribute, world.default_pools[0], CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value);
        say("    used of a pool: %d, %llu", (int)rc, (unsigned long long)value);
        break;
    case 7:
        if (event >= 0) {
            rc = CALL(cuEventQuery, world.events[event].handle);
            say("    cuEventQuery(%d)", event);
            say_related(rc == CUDA_ERROR_NOT_READY || rc == CUDA_SUCCESS ? "ready" : "reserved", (unsigned)rc);
        }
        break;
    case 8:
        rc = CALL(cuMemPoolTrimTo, world.default_pools[draw(world.devices)], 0);
        say("    cuMemPoolTrimTo: %d", (int)rc);
        break;
    default:
        if (block >= 0) {
            ask_everything(world.blocks[block].address, &world.blocks[block]);
        }
    }
}

/* Memory of the graph goes with it. */
static void forget_graph_memory(void)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        world.blocks[i].kind = world.blocks[i].kind == GRAPH ? ABSENT : world.blocks[i].kind;
    }
}

static void run_graph(CUgraph graph, CUstream stream)
{
    CUgraphExec executable = NULL;
    size_t nodes = 0;
    (void)CALL(cuGraphGetNodes, graph, NULL, &nodes);
    CUresult made = CALL(cuGraphInstantiateWithFlags, &executable, graph, 0);
    say("  graph of %zu nodes: %d", nodes, (int)made);
    for (uint64_t i = draw(3); made == CUDA_SUCCESS && i > 0; i--) {
        say("  cuGraphLaunch: %d", (int)CALL(cuGraphLaunch, executable, stream));
    }
    say("  cuStreamSynchronize: %d", (int)CALL(cuStreamSynchronize, stream));
    int block = pick_block(ANY_OF(GRAPH));
    if (block >= 0) {
        ask_everything(world.blocks[block].address, &world.blocks[block]);
        if (chance(30)) {
            say("  cuMemFree_v2(memory of the graph): %d", (int)CALL(cuMemFree_v2, world.blocks[block].address));
        }
    }
    if (made == CUDA_SUCCESS) {
        say("  cuGraphExecDestroy: %d", (int)CALL(cuGraphExecDestroy, executable));
    }
    say("  cuGraphDestroy: %d", (int)CALL(cuGraphDestroy, graph));
}

/*
 * A free of memory that the graph has not allocated fails. Whether it breaks the capture besides is not on record of a
 * real driver, so nothing is done with the graph.
 */
static void free_others_memory_captured(CUstream stream)
{
    int block = pick_block(ANY_ALLOCATED);
    CUgraph graph = NULL;
    unsigned before = count_misuses();
    if (block >= 0) {
        say("    cuMemFreeAsync(block %d, captured)", block);
        say_related("captured_free", (unsigned)CALL(cuMemFreeAsync, world.blocks[block].address, stream));
    }
    say_related("broken", (unsigned)CALL(cuStreamEndCapture, stream, &graph));
    if (graph != NULL) {
        (void)cu[0].cuGraphDestroy(graph);
    }
    world.excused += count_misuses() - before;
}

void step_capture(void)
{
    int slot = pick_stream();
    CUstreamCaptureMode mode = (CUstreamCaptureMode)draw(3);
    CUstreamCaptureMode of_thread = (CUstreamCaptureMode)draw(3);
    CUgraph graph = NULL;
    if (slot < 0) {
        return;
    }
    struct place place = {slot, world.streams[slot].context};
    CUstream stream = world.streams[slot].handle;
    settle(place);
    if (!enter_place(place)) {
        return;
    }
    (void)CALL(cuThreadExchangeStreamCaptureMode, &of_thread);
    CUresult rc = CALL(cuStreamBeginCapture_v2, stream, mode);
    say("  cuStreamBeginCapture_v2(%d, %d): %d", slot, (int)mode, (int)rc);
    for (uint64_t i = draw(6); rc == CUDA_SUCCESS && i > 0; i--) {
        work_while_capturing(stream);
    }
    if (rc == CUDA_SUCCESS && chance(15)) {
        free_others_memory_captured(stream);
        rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (rc == CUDA_SUCCESS) {
        rc = CALL_FORM(draw(2), cuStreamEndCapture, stream, &graph);
        say("  cuStreamEndCapture(%d): %d", slot, (int)rc);
    }
    (void)CALL(cuThreadExchangeStreamCaptureMode, &of_thread);
    say("  the thread's mode was kept: %d", (int)of_thread);
    if (rc == CUDA_SUCCESS) {
        run_graph(graph, stream);
    }
    forget_graph_memory();
    memset(world.peaks_shifted, true, sizeof world.peaks_shifted);
    leave_place();
}
