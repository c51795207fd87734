#pragma once
/// \file
/// The one exception type. Every message names the subject (file, tensor or config field), what was found and
/// what was wanted.
/// defines: Error, require

#include <stdexcept>
#include <string>
#include <string_view>

namespace k3spec {

class Error : public std::runtime_error {
 public:
  /// \param subject  the file, tensor or config field at fault, outermost first: "d.safetensors: 'fc.weight': shape"
  Error(std::string_view subject, std::string_view found, std::string_view wanted)
      : std::runtime_error(sentence(subject, found, wanted)), subject_(subject), found_(found), wanted_(wanted) {}

  const std::string& subject() const noexcept { return subject_; }
  const std::string& found() const noexcept { return found_; }
  const std::string& wanted() const noexcept { return wanted_; }

  /// The same error seen from further out, e.g. with the file's name put before the tensor's.
  Error within(std::string_view outer) const { return {std::string(outer) + ": " + subject_, found_, wanted_}; }

 private:
  static std::string sentence(std::string_view subject, std::string_view found, std::string_view wanted) {
    std::string text(subject);
    text.append(": found ").append(found).append(", wanted ").append(wanted);
    return text;
  }

  std::string subject_, found_, wanted_;
};

/// Throws Error unless `holds`. For messages that are costly to build, test the condition at the call instead.
inline void require(bool holds, std::string_view subject, std::string_view found, std::string_view wanted) {
  if (!holds) throw Error(subject, found, wanted);
}

}  // namespace k3spec
