#include "fibre.hpp"

#include "sanitizer.hpp"

#if defined(__x86_64__)
// void cuda_host_switch(void** save, void* to): a call keeps six registers and the control words; the rest the compiler
// expects to lose.
asm(R"(
.text
.type cuda_host_switch,@function
cuda_host_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cuda_host_switch,.-cuda_host_switch
)");
extern "C" void cuda_host_switch(void** save, void* to);
#endif

namespace cuda_host {

#if defined(__x86_64__)

void make_fibre(Fibre& fibre, void (*entry)()) {
  auto* top = reinterpret_cast<std::uint64_t*>((fibre.stack + fibre.stack_size) & ~std::uint64_t{15});
  *--top = 0;  // where entry would return to; leaves the stack as a call does
  *--top = reinterpret_cast<std::uint64_t>(entry);
  for (int i = 0; i < 6; ++i) *--top = 0;
  fibre.stack_pointer = top;
}

static void jump(Fibre& from, Fibre& to) { cuda_host_switch(&from.stack_pointer, to.stack_pointer); }

#else

void make_fibre(Fibre& fibre, void (*entry)()) {
  getcontext(&fibre.context);
  fibre.context.uc_stack.ss_sp = reinterpret_cast<void*>(fibre.stack);
  fibre.context.uc_stack.ss_size = fibre.stack_size;
  fibre.context.uc_link = nullptr;
  makecontext(&fibre.context, entry, 0);
}

static void jump(Fibre& from, Fibre& to) { swapcontext(&from.context, &to.context); }

#endif

void switch_fibre(Fibre& from, Fibre& to) {
  if (!has_asan()) {
    jump(from, to);
    return;
  }
  __sanitizer_start_switch_fiber(&from.fake_stack, reinterpret_cast<void*>(to.stack), to.stack_size);
  jump(from, to);
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
}

void begin_fibre(Fibre& self) {
  if (has_asan()) __sanitizer_finish_switch_fiber(self.fake_stack, nullptr, nullptr);
}

}  // namespace cuda_host
