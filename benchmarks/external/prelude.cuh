// What the kernels expect of headers that NVRTC does not have: a few macros, and as much of cooperative groups as
// they use, by CUDA's documented meaning.
typedef unsigned int uint;
#define INFINITY __int_as_float(0x7f800000)
#define FLT_MAX 3.402823466e+38f
#define assert(condition) ((void)0)

namespace cooperative_groups {

struct thread_block {
  __device__ static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  __device__ static unsigned thread_rank() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  }
  __device__ static void sync() { __syncthreads(); }
};
__device__ inline thread_block this_thread_block() { return {}; }
__device__ inline void sync(const thread_block&) { __syncthreads(); }

// A whole warp.
template <unsigned Size> struct thread_block_tile {
  static_assert(Size == 32, "only whole warps are used");
  __device__ static unsigned size() { return Size; }
  __device__ static unsigned thread_rank() { return thread_block::thread_rank() % Size; }
  __device__ static unsigned meta_group_rank() { return thread_block::thread_rank() / Size; }
  __device__ static unsigned meta_group_size() { return (thread_block::size() + Size - 1) / Size; }
  __device__ static void sync() { __syncwarp(); }
  template <class T> __device__ static T shfl_down(T value, unsigned delta) {
    return __shfl_down_sync(0xffffffff, value, delta);
  }
};
template <unsigned Size> __device__ inline thread_block_tile<Size> tiled_partition(const thread_block&) { return {}; }

template <class T> struct plus {
  __device__ T operator()(T a, T b) const { return a + b; }
};
template <class T> struct greater {
  __device__ T operator()(T a, T b) const { return a > b ? a : b; }
};
template <unsigned Size, class T, class F>
__device__ inline T reduce(const thread_block_tile<Size>&, T value, F combine) {
  for (unsigned delta = Size / 2; delta > 0; delta /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffff, value, delta));
  return value;
}

}  // namespace cooperative_groups
