// Writes the keys or values of a step's tokens into their places in a pool. Draft: see the crate's README.
//
// rows [T, width] f32 with `stride` elements between tokens; slots [T]; pool [slots, width]. One block of threads per token.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ inline void narrow(float x, float *to) { *to = x; }
// a value beyond f16's range stays the largest number: infinity would turn a whole row into NaN
__device__ inline void narrow(float x, __half *to) { *to = __float2half(fminf(fmaxf(x, -65504.f), 65504.f)); }
__device__ inline void narrow(float x, __nv_bfloat16 *to) { *to = __float2bfloat16(x); }

template <typename T>
__device__ void write_slots(T *pool, const float *rows, const unsigned *slots, unsigned width, unsigned stride) {
    const float *from = rows + (size_t)blockIdx.x * stride;
    T *to = pool + (size_t)slots[blockIdx.x] * width;
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) narrow(from[i], to + i);
}

#define WRITE_SLOTS(NAME, T)                                                                                             \
    extern "C" __global__ void write_slots_##NAME(T *pool, const float *rows, const unsigned *slots, unsigned width,     \
                                                  unsigned stride) {                                                     \
        write_slots<T>(pool, rows, slots, width, stride);                                                                \
    }
WRITE_SLOTS(f32, float)
WRITE_SLOTS(f16, __half)
WRITE_SLOTS(bf16, __nv_bfloat16)
