#pragma once
/// \file
/// The one exception type. Every message names the subject (file, tensor or config field), what was found and
/// what was wanted. These may come from a file that anybody wrote, and the message goes to a terminal: so control
/// characters are escaped, and each part is shortened to what can be read.
/// defines: Error, require

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <k3spec/core/printable.hpp>

namespace K3SPEC_NAMESPACE {

/// The library's exception: what is at fault, what was found there and what was wanted.
class Error : public std::runtime_error {
 public:
  /// Says what is wrong, in the library's one style: "subject: found X, wanted Y".
  /// \param subject  the file, tensor or config field at fault, outermost first: "d.safetensors: 'fc.weight': shape"
  /// \param wanted   may have several lines
  Error(std::string_view subject, std::string_view found, std::string_view wanted)
      : Error(Parts{printable(subject, most), printable(found, most), printable(wanted, most_wanted, true)}) {}

  const std::string& subject() const noexcept { return subject_; }
  const std::string& found() const noexcept { return found_; }
  const std::string& wanted() const noexcept { return wanted_; }

  /// The same error seen from further out, e.g. with the file's name put before the tensor's.
  Error within(std::string_view outer) const { return {std::string(outer) + ": " + subject_, found_, wanted_}; }

 private:
  /// Bytes: a path may have 4096, and what is at fault stands behind it.
  static constexpr std::size_t most = 6000, most_wanted = 16000;

  struct Parts {
    std::string subject, found, wanted;
  };

  explicit Error(Parts parts)
      : std::runtime_error(parts.subject + ": found " + parts.found + ", wanted " + parts.wanted),
        subject_(std::move(parts.subject)),
        found_(std::move(parts.found)),
        wanted_(std::move(parts.wanted)) {}

  std::string subject_, found_, wanted_;
};

/// Throws Error unless `holds`. For messages that are costly to build, test the condition at the call instead.
inline void require(bool holds, std::string_view subject, std::string_view found, std::string_view wanted) {
  if (!holds) throw Error(subject, found, wanted);
}

}  // namespace K3SPEC_NAMESPACE
