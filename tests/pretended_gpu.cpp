// The C++ half of the pretended GPU (pretended_gpu.py): tells a torch without CUDA that there is one device of that kind.
//
// Autograd asks a device guard for streams and for the current device, and pinned memory comes from an allocator of the
// device. Both are answered here without any device.

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <mutex>
#include <unordered_set>

namespace {

const c10::Device THE_DEVICE{c10::DeviceType::CUDA, 0};
const c10::Stream THE_STREAM{c10::Stream::DEFAULT, THE_DEVICE};

struct Guard final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> {
  c10::Device getDevice() const override { return THE_DEVICE; }
  c10::Device exchangeDevice(c10::Device) const override { return THE_DEVICE; }
  c10::Stream getStream(c10::Device) const noexcept override { return THE_STREAM; }
  c10::Stream getDefaultStream(c10::Device) const override { return THE_STREAM; }
  c10::Stream getNewStream(c10::Device, int) const override { return THE_STREAM; }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return THE_STREAM; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeEvent(void*) const override {}
};

// Ordinary memory whose addresses are remembered, so that `is_pinned` can tell it from other memory.
struct PinnedMemory final : c10::Allocator {
  static std::mutex& lock() { static std::mutex made; return made; }
  static std::unordered_set<const void*>& addresses() { static std::unordered_set<const void*> made; return made; }

  static void release(void* address) {
    {
      std::lock_guard<std::mutex> held(lock());
      addresses().erase(address);
    }
    c10::free_cpu(address);
  }
  c10::DataPtr allocate(size_t size) override {
    void* address = c10::alloc_cpu(size ? size : 1);
    std::lock_guard<std::mutex> held(lock());
    addresses().insert(address);
    return {address, address, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t size) const override { default_copy_data(to, from, size); }
  static bool has(const void* address) {
    std::lock_guard<std::mutex> held(lock());
    return addresses().count(address) > 0;
  }
};

}  // namespace

struct CUDAHooks final : at::CUDAHooksInterface {  // torch looks for hooks of this name
  explicit CUDAHooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex current_device() const override { return 0; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  int getNumGPUs() const override { return 1; }
  bool isPinnedPtr(const void* address) const override { return PinnedMemory::has(address); }
  c10::Allocator* getPinnedMemoryAllocator() const override { static PinnedMemory made; return &made; }
};

C10_REGISTER_GUARD_IMPL(CUDA, Guard)
namespace at {
using ::CUDAHooks;
REGISTER_CUDA_HOOKS(CUDAHooks)
}  // namespace at
