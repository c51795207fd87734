#pragma once
/// \file
/// What the example programs share.
/// defines: say, open_standard_files, version_text, run_program, make_host, add_device_options, DeviceOptions,
/// device_text

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>

#include <fcntl.h>
#include <unistd.h>

#include <k3spec/backend/cpu/cpu_check.hpp>
#include <k3spec/backend/cuda_driver.hpp>
#include <k3spec/core/device.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/core/printable.hpp>
#include <k3spec/core/version.hpp>

#include "arguments.hpp"

namespace k3spec::examples {

/// A line on standard error, if anybody hears it.
inline void say(const std::string& line) { std::fputs((line + '\n').c_str(), stderr); }

/// Standard input, output and error that were closed lead nowhere: else the next file opened would take their number,
/// and get what is said.
inline void open_standard_files() {
  for (int file = 0; file <= 2; ++file) {
    if (::fcntl(file, F_GETFD) < 0) ::open("/dev/null", file == 0 ? O_RDONLY : O_WRONLY);
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows beyond what is allowed is a failed write, as a full disk
}

/// "k3spec 0.1.0, built for x86-64-v3 (avx2, fma, bmi2)"
inline std::string version_text() {
  std::string features;
  for (const CpuFeature& f : needed_cpu_features()) features.append(features.empty() ? " (" : ", ").append(f.name);
  if (!features.empty()) features += ')';
  return fmt::format("k3spec {}, built for {}{}", K3SPEC_VERSION, instruction_set(), features);
}

/// What was printed has arrived. A reader that left is no failure.
inline void flush_output() {
  if (std::fflush(stdout) == 0 || errno == EPIPE) return;
  throw Error("standard output", std::generic_category().message(errno), "room for what is printed");
}

namespace detail {

/// Runs f; what a library throws then names, as an Error does, what was found and what was wanted.
template <class F>
int in_our_words(F&& f) {
  try {
    return f();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw Error("memory", "none left", "more of it, or fewer and shorter windows, prompts or files");
  } catch (const std::filesystem::filesystem_error& e) {
    throw Error(e.path1().string(), e.code().message(), "a file or folder that can be used");
  } catch (const std::system_error& e) {
    throw Error("the system", e.what(), "no failure");
  }
}

}  // namespace detail

/// Runs `body(arguments)`, which may return an exit status and has to add its flags and parse them.
/// \returns what Arguments says in --help: an exception is one line on standard error, and 1, or 2 for a command line
///          that cannot be meant
template <class F>
int run_program(const char* name, const char* about, F&& body) {
  open_standard_files();
  const auto refuse = [name](const std::exception& e, int status) {
    say(fmt::format("{}: {}", name, printable(e.what(), 30000, true)));
    return status;
  };
  try {
    require_cpu_features();
    Arguments arguments(about, fmt::format("{} of {}", name, version_text()));
    arguments.add_to_footer(fmt::format("Built for the instruction set {}.", instruction_set()));
    return detail::in_our_words([&] {
      int status = 0;
      try {
        if constexpr (std::is_same_v<decltype(body(arguments)), int>) {
          status = body(arguments);
        } else {
          body(arguments);
        }
      } catch (const CLI::Success& what) {
        status = arguments.show(what);
      }
      flush_output();
      return status;
    });
  } catch (const UsageError& e) {
    return refuse(e, 2);
  } catch (const std::exception& e) {
    return refuse(e, 1);
  }
}

struct DeviceOptions {
  std::string device = "cpu";
  int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
};

inline void add_device_options(Arguments& arguments, DeviceOptions& options) {
  arguments.one_of("--device", options.device, {"cpu", "cuda"}, "Where to compute");
  arguments.number("--threads", options.threads, Range<int>{1, 4096}, "Threads; results do not depend on them");
}

/// What a program computes with: "instruction set x86-64-v3, 2 threads"
inline std::string device_text(const DeviceOptions& options) {
  return fmt::format("instruction set {}, {} thread{}", instruction_set(), options.threads,
                     options.threads == 1 ? "" : "s");
}

/// What a program does on the host.
/// \param cuda  whether the program is compiled to compute on a card, too
/// \throws Error when it is to compute on a device that is not there, or that it is not compiled for
inline Cpu make_host(const DeviceOptions& options, bool cuda = false) {
  if (options.device == "cpu") return Cpu{options.threads};
  const CudaDriver driver = find_cuda_driver();
  if (!driver.unavailable.empty()) throw Error("--device cuda", driver.unavailable, "a device that CUDA runs on");
  if (cuda) return Cpu{options.threads};
  throw Error("--device cuda", driver.describe(),
              "--device cpu: of the programs train_draft alone computes on a card, where it is compiled for that "
              "(CUDA of k3spec_add_programs)");
}

}  // namespace k3spec::examples
