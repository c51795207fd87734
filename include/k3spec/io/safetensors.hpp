#pragma once
/// \file
/// Safetensors files, read and written.
/// defines: io::SafetensorsFile (safetensors_reader.hpp), io::TensorSource, io::write_safetensors
/// (safetensors_writer.hpp), io::write_text (atomic_file.hpp)

#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/safetensors_reader.hpp>
#include <k3spec/io/safetensors_writer.hpp>
