// Runs one generated kernel on arrays from a file, for machines where there is no Python: cross-compiled and
// run under an emulator. The kernel's own source is included, so that the struct is the kernel's own.
//
//   driver INPUT OUTPUT
//   INPUT   int64 sizes[20]: batch, num_heads, num_heads_kv, seqlen_q, seqlen_k, q_stride[3], k_stride[3],
//           v_stride[3], out_stride[3], bytes of q, k and v; then double softmax_scale, int64 has_lengths, the
//           lengths (int64 each), q, k and v
//   OUTPUT  out, in the order of its strides, then lse

#include KERNEL_SOURCE

#include <cstdio>
#include <thread>
#include <vector>

namespace {

// The pool of OpenMP, as the kernel wants it: `body` on so many threads.
void run_on_threads(void (*body)(void*), void* data, unsigned num_threads, unsigned) {
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < num_threads; ++i) threads.emplace_back(body, data);
  body(data);
  for (std::thread& thread : threads) thread.join();
}

std::vector<char> read_bytes(FILE* file, int64_t count) {
  std::vector<char> bytes(static_cast<size_t>(count));
  if (std::fread(bytes.data(), 1, bytes.size(), file) != bytes.size()) std::exit(3);
  return bytes;
}

template <typename Value>
Value read_value(FILE* file) {
  return *reinterpret_cast<const Value*>(read_bytes(file, sizeof(Value)).data());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  FILE* input = std::fopen(argv[1], "rb");
  if (input == nullptr) return 3;
  AttentionArgs args = {};
  args.abi_version = kAbiVersion;
  for (int64_t* size : {&args.batch, &args.num_heads, &args.num_heads_kv, &args.seqlen_q, &args.seqlen_k})
    *size = read_value<int64_t>(input);
  for (int64_t* strides : {args.q_stride, args.k_stride, args.v_stride, args.out_stride})
    for (int axis = 0; axis < 3; ++axis) strides[axis] = read_value<int64_t>(input);
  const int64_t q_bytes = read_value<int64_t>(input), k_bytes = read_value<int64_t>(input);
  const int64_t v_bytes = read_value<int64_t>(input);
  args.softmax_scale = read_value<double>(input);
  const bool has_lengths = read_value<int64_t>(input) != 0;
  const std::vector<char> lengths = read_bytes(input, has_lengths ? args.batch * int64_t{8} : 0);
  const std::vector<char> q = read_bytes(input, q_bytes), k = read_bytes(input, k_bytes);
  const std::vector<char> v = read_bytes(input, v_bytes);
  std::fclose(input);

  const size_t rows = static_cast<size_t>(args.batch * args.num_heads * args.seqlen_q);
  std::vector<char> out(rows * kHeadDimV * sizeof(Element), '\xff'), lse(rows * sizeof(Compute), '\xff');  // NaN
  args.q = q.data();
  args.k = k.data();
  args.v = v.data();
  args.out = out.data();
  args.lse = lse.data();
  args.seqlens_k = has_lengths ? reinterpret_cast<const int64_t*>(lengths.data()) : nullptr;
  args.max_threads = 2;
  args.parallel = run_on_threads;
  if (KERNEL_ENTRY(&args) != kOk) return 4;

  FILE* output = std::fopen(argv[2], "wb");
  if (output == nullptr) return 3;
  std::fwrite(out.data(), 1, out.size(), output);
  std::fwrite(lse.data(), 1, lse.size(), output);
  return std::fclose(output) == 0 ? 0 : 3;
}
