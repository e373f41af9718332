/* vmm.c - the only caller of the driver's virtual memory calls. */
#include "cu.h"
