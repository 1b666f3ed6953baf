// Writes the keys or values of a step's tokens into their places in a pool. Draft: see the crate's README.
//
// rows [T, width] f32 with `stride` elements between tokens; slots [T]; pool [slots, width]. Grid: (width, T).
#include <metal_stdlib>
using namespace metal;

template <typename T>
kernel void write_slots(device T *pool [[buffer(0)]], device const float *rows [[buffer(1)]],
                        device const uint *slots [[buffer(2)]], constant uint &width [[buffer(3)]],
                        constant uint &stride [[buffer(4)]], uint2 at [[thread_position_in_grid]]) {
    if (at.x >= width) return;
    float x = rows[ulong(at.y) * stride + at.x];
    // a value beyond f16's range stays the largest number: infinity would turn a whole row into NaN
    if (sizeof(T) == 2 && is_same_v<T, half>) x = clamp(x, -65504.0f, 65504.0f);
    pool[ulong(slots[at.y]) * width + at.x] = T(x);
}

#define WRITE_SLOTS(NAME, T)                                                                                             \
    template [[host_name("write_slots_" #NAME)]] kernel void write_slots<T>(                                             \
        device T *, device const float *, device const uint *, constant uint &, constant uint &, uint2);
WRITE_SLOTS(f32, float)
WRITE_SLOTS(f16, half)
WRITE_SLOTS(bf16, bfloat)
