#pragma once
/// \file
/// From a checkpoint's folder to a C++ header with the config type that is made for it, and of a target types of drafts
/// to begin with. The header says every field, so that a reader sees them, and ends by holding the type against the
/// numbers that the checkpoint's tensors have: fields and tensors that disagree do not compile.
/// defines: io::EmittedConfig, io::emitted_mark, io::is_emitted_config, io::emitted_header, io::emit_config

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <k3spec/io/emitted_drafts.hpp>
#include <k3spec/io/emitted_model.hpp>
#include <k3spec/io/input_file.hpp>
#include <k3spec/io/tensor_tally.hpp>
#include <k3spec/io/type_name.hpp>

namespace K3SPEC_NAMESPACE::io {

/// A header, and what its reader should know.
struct EmittedConfig {
  std::string text;
  std::vector<std::string> notes;  ///< as messages may show them
};

/// What such a header begins with.
inline constexpr std::string_view emitted_mark = "// A config that k3spec wrote from a checkpoint's config.json";

/// Whether a file is one that emit_config wrote.
inline bool is_emitted_config(const std::filesystem::path& file) {
  try {
    std::string text(emitted_mark.size(), '\0');
    text.resize(InputFile(file).read_some(0, text.data(), text.size()));
    return text == emitted_mark;
  } catch (const Error&) {  // something else
    return false;
  }
}

namespace detail {

/// The model as the library has it: a template of its config.
inline std::string model_template(const EmittedModel& model) {
  if (!model.draft) return "K3Target";
  if (*model.draft == DraftKind::eagle3) return "Eagle3Draft";
  return *model.draft == DraftKind::dflash ? "DFlashDraft" : "DSparkDraft";
}

inline std::string includes_of(const EmittedModel& model) {
  std::vector<std::string> files{"config/change.hpp", "config/check.hpp"};
  if (model.backbone == Backbone::deepseek_v3) files.push_back("config/deepseek_v3.hpp");
  if (!model.draft) {
    files.push_back("target/k3_target.hpp");
  } else {
    files.push_back("drafts/" + value_name(*model.draft) + "_draft.hpp");
  }
  std::string text = "#include <array>\n#include <optional>\n\n";
  for (const std::string& file : files) text += "#include <k3spec/" + file + ">\n";
  return text;
}

/// The base whose members are hidden, and the short name of it.
struct EmittedBase {
  std::string whole, name;
};
inline EmittedBase base_of(const EmittedModel& model) {
  const std::string configs = "::k3spec::configs::";
  const bool k3 = model.backbone == Backbone::kimi_k3;
  const std::string target = configs + (k3 ? "KimiK3Target" : "DeepSeekV3Target");
  if (!model.draft) return {target, "KimiK3Target"};
  const std::string name = *model.draft == DraftKind::eagle3   ? "Eagle3"
                           : *model.draft == DraftKind::dflash ? "DFlash"
                                                               : "DSpark";
  return {configs + name + "<" + target + ">", name};
}

/// Names that no type here may have: those of its members and bases.
inline void refuse_member_names(const std::string& name, const ConfigMembers& members, std::string_view subject) {
  bool taken = name == "backbone" || name == "KimiK3Target" || name == "DeepSeekV3Target" || name == "Eagle3" ||
               name == "DFlash" || name == "DSpark";
  for (const auto& member : members.all) taken = taken || member.name == name;
  if (taken) throw Error(subject, "'" + name + "'", "a name that no member or base of a config has");
}

/// That the type can be a config, and that the tensors are as many numbers as it says.
inline std::string checks_of(const EmittedModel& model, const std::string& name, std::uint64_t parameters) {
  const std::string checked = !model.draft                        ? "CheckedTarget"
                              : *model.draft == DraftKind::eagle3 ? "CheckedEagle3"
                              : *model.draft == DraftKind::dflash ? "CheckedDFlash"
                                                                  : "CheckedDSpark";
  std::string text = "\n// Refuses what no config may say.\nstatic_assert(sizeof(::k3spec::" + checked + "<" + name +
                     ">) > 0);\n\n// The count is that of the checkpoint's tensors, not of the fields above.\n";
  return text + "static_assert(::k3spec::parameter_count<::k3spec::" + model_template(model) + "<" + name +
         ">> == " + std::to_string(parameters) + ",\n              \"" + name +
         ": config.json describes another number of parameters than the checkpoint's tensors hold\");\n";
}

}  // namespace detail

/// The header's text.
/// \param shown       what the checkpoint is called there
/// \param parameters  what the tensors hold
/// \throws Error on a name that a member has
inline std::string emitted_header(const EmittedModel& model, const TypeName& name, std::string_view shown,
                                  std::uint64_t parameters) {
  detail::refuse_member_names(name.name, model.members, "the type's name");
  const detail::EmittedBase base = detail::base_of(model);
  const std::string kind =
      model.draft ? "a draft, " + detail::value_name(*model.draft) : "a target, with drafts to begin with";
  std::string text = std::string(emitted_mark) + ".\n#pragma once\n\n" + detail::includes_of(model) + "\n";
  std::string space;
  for (const std::string& outer : name.outer) space.append(space.empty() ? "" : "::").append(outer);
  if (!space.empty()) text += "namespace " + space + " {\n\n";
  text += detail::comment_line("Of '" + std::string(shown) + "': " + kind + ".");
  for (const auto* lines : {&model.remarks, &model.notes}) {
    for (const std::string& line : *lines) text += detail::comment_line(line);
  }
  text += detail::type_text(name.name, base.whole, base.name, model.members);
  text += detail::checks_of(model, name.name, parameters);
  if (!model.draft) text += detail::draft_types(name.name, model.members);
  if (!space.empty()) text += "\n}  // namespace " + space + "\n";
  return text;
}

/// Reads a checkpoint's config.json and the headers of its tensors.
/// \param folder  of a target, or of a draft as this library writes it
/// \throws Error as read_model, emitted_header and ModelTensors::open
inline EmittedConfig emit_config(const std::filesystem::path& folder, const TypeName& name) {
  const auto config = folder / "config.json", generation = folder / generation_config_name;
  detail::ModelFiles files{read_json(config), nullptr, config.string(), generation.string()};
  std::error_code ignored;  // what cannot be looked at cannot be opened, and opening says why
  if (std::filesystem::status(generation, ignored).type() != std::filesystem::file_type::not_found) {
    files.generation = read_json(generation);
  }
  EmittedModel model = read_model(files);
  const auto tensors = ModelTensors::open(folder, model.draft ? "" : "language_model.");
  const TensorTally tally = model.draft ? tally_draft(tensors) : tally_target(tensors, model.members);
  for (std::string& note : tally_notes(tally)) model.notes.push_back(std::move(note));
  const auto whole = (std::filesystem::absolute(folder, ignored) / "").lexically_normal().parent_path();
  EmittedConfig out{emitted_header(model, name, whole.filename().string(), tally.parameters), model.notes};
  out.notes.insert(out.notes.end(), tensors.notes().begin(), tensors.notes().end());
  return out;
}

}  // namespace K3SPEC_NAMESPACE::io
