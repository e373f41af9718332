/*
 * steps.h - what a random program consists of: the steps of steps.def.
 */
#ifndef STEPS_H
#define STEPS_H

#include "world.h"

#define STEP(name, weight) void step_##name(void);
#include "steps.def"
#undef STEP

/* steps_blocks.c: puts a new block into slot @slot. */
void note_block(int slot, enum kind kind, CUdeviceptr address, size_t bytes, int device, struct place owner);

/* steps_questions.c: every attribute of @address, in both forms, in words; @block is what it is in, or NULL. */
void ask_everything(CUdeviceptr address, const struct block *block);

/* The same for an address that was freed: @for_good, or behind work of a stream. */
void ask_gone(CUdeviceptr address, bool for_good);

/* The device of the current context; -1: none. */
int current_device(void);

#endif
