// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/export/export.h"
#include "core/export/launch.h"
#include "core/export/settings_io.h"

// One pair of functions a target; not for other folders. A writer gets a plan whose rules hold
// under the target's framework; `reasons` are what its rules do not cover but the target cannot
// launch.
namespace piper {

inline constexpr std::string_view kMegatronScript = "megatron.sh";
inline constexpr std::string_view kMegatronYaml = "megatron.yaml";
inline constexpr std::string_view kMegatronYamlScript = "megatron_yaml.sh";
inline constexpr std::string_view kDeepSpeedConfig = "ds_config.json";
inline constexpr std::string_view kDeepSpeedRest = "ds_config.piper.json";
inline constexpr std::string_view kXMoeScript = "xmoe.sh";
inline constexpr std::string_view kTorchtitanConfig = "torchtitan.toml";
inline constexpr std::string_view kTorchtitanScript = "torchtitan.sh";
inline constexpr std::string_view kSbatchScript = "job.sbatch";
inline constexpr std::string_view kPlanFile = "plan.json";

/// Replaces the world a script names, where a job file around it says more.
using GivenShape = std::optional<LaunchShape>;

[[nodiscard]] std::vector<std::string> megatronYamlReasons(const Plan& plan);
[[nodiscard]] std::vector<std::string> xmoeReasons(const Plan& plan);
[[nodiscard]] std::vector<std::string> torchtitanReasons(const Plan& plan);

[[nodiscard]] Result<Export> exportMegatron(const Plan& plan);
[[nodiscard]] Result<Export> exportMegatronYaml(const Plan& plan);
[[nodiscard]] Result<Export> exportDeepSpeed(const Plan& plan);
[[nodiscard]] Result<Export> exportXMoe(const Plan& plan);
[[nodiscard]] Result<Export> exportTorchtitan(const Plan& plan);
[[nodiscard]] Result<Export> exportSlurm(const Plan& plan);

using Files = std::vector<ExportedFile>;
[[nodiscard]] Result<Plan> importMegatron(const Files& files, const Plan& base, GivenShape shape);
[[nodiscard]] Result<Plan> importMegatronYaml(const Files& files, const Plan& base,
                                              GivenShape shape);
[[nodiscard]] Result<Plan> importDeepSpeed(const Files& files, const Plan& base);
[[nodiscard]] Result<Plan> importXMoe(const Files& files, const Plan& base, GivenShape shape);
[[nodiscard]] Result<Plan> importTorchtitan(const Files& files, const Plan& base, GivenShape shape);
[[nodiscard]] Result<Plan> importSlurm(const Files& files, const Plan& base);

/// The plan's part of a Megatron-LM command line, and back (all but dp).
[[nodiscard]] Settings megatronSettings(const Plan& plan);
[[nodiscard]] Settings megatronRunSettings();
void readMegatronSettings(SettingReader& in, Plan& plan);
void addMegatronModel(const ModelSpec& model, std::int64_t seq_len, Settings& out);
/// At most 100000: more is a slip of the pen.
[[nodiscard]] std::int64_t readNumLayers(SettingReader& in);
void readMegatronModel(SettingReader& in, ModelSpec& model);

/// Keys of ds_config.json that the plan decides, and back (micro-batch, batch, ZeRO, offload,
/// precision; dp follows).
[[nodiscard]] Settings deepSpeedSettings(const Plan& plan);
void readDeepSpeedSettings(SettingReader& in, Plan& plan);
/// The whole file.
[[nodiscard]] std::string deepSpeedConfigText(const Plan& plan);
[[nodiscard]] Result<Settings> parseDeepSpeedConfig(const ExportedFile& file);

[[nodiscard]] Result<Settings> parseMegatronYaml(const ExportedFile& file);
[[nodiscard]] Result<Settings> parseTorchtitanConfig(const ExportedFile& file);
/// "#SBATCH" options. Errors: InvalidInput for one sbatch does not have.
[[nodiscard]] Result<Settings> parseSbatch(const ExportedFile& file);

}  // namespace piper
