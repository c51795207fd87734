#pragma once
/// \file
/// What the example programs share.
/// defines: say, open_standard_files, run_program, make_device, add_device_options, DeviceOptions, name_of, add_named

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <k3spec/backend/cpu/cpu_check.hpp>
#include <k3spec/backend/cuda_driver.hpp>
#include <k3spec/config/conventions.hpp>
#include <k3spec/core/device.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/core/printable.hpp>

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

/// Runs `body`, which may return an exit status; an exception becomes one line on standard error and exit status 1.
template <class F>
int run_program(const char* name, F&& body) {
  open_standard_files();
  try {
    require_cpu_features();
    if constexpr (std::is_same_v<decltype(body()), int>) return body();
    body();
    return 0;
  } catch (const std::exception& e) {
    say(fmt::format("{}: {}", name, printable(e.what(), 30000, true)));
    return 1;
  }
}

/// The name of an enumeration's value.
template <class E>
std::string name_of(E value) {
  return std::string(names_of<E>[static_cast<std::size_t>(value)]);
}

/// An option whose value is one of an enumeration's names.
template <class E>
CLI::Option* add_named(CLI::App& app, const std::string& flag, E& value, const std::string& help) {
  const std::vector<std::string> names(names_of<E>.begin(), names_of<E>.end());
  const auto set = [&value, names](const std::string& name) {
    value = static_cast<E>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  return app.add_option_function<std::string>(flag, set, help)
      ->check(CLI::IsMember(names))
      ->default_str(name_of(value));
}

struct DeviceOptions {
  std::string device = "cpu";
  int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
};

inline void add_device_options(CLI::App& app, DeviceOptions& options) {
  app.add_option("--device", options.device, "Where to compute")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Threads; results do not depend on them")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
}

/// \throws Error when the device is not there, or cannot do what the examples do
inline Cpu make_device(const DeviceOptions& options) {
  if (options.device == "cpu") return Cpu{options.threads};
  const CudaDriver driver = find_cuda_driver();
  if (!driver.unavailable.empty()) throw Error("--device cuda", driver.unavailable, "a device that CUDA runs on");
  throw Error("--device cuda", driver.describe(),
              "--device cpu: drafts do not run on CUDA yet, their attention has no CUDA kernels");
}

}  // namespace k3spec::examples
