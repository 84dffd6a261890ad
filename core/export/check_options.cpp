// SPDX-License-Identifier: Apache-2.0
#include "core/export/shell_script.h"
#include "core/export/targets.h"

namespace piper {
namespace {

Status checkScript(const ExportedFile& file, OptionSet set) {
    const Result<ParsedScript> parsed = parseShellScript(file.content, optionList(set), file.name);
    if (!parsed.ok()) return parsed.error();
    return {};
}

template <class T>
Status statusOf(const Result<T>& result) {
    if (!result.ok()) return result.error();
    return {};
}

}  // namespace

Status checkOptions(const std::vector<ExportedFile>& files) {
    for (const ExportedFile& file : files) {
        if (file.name == kMegatronScript || file.name == kMegatronYamlScript)
            PIPER_TRY(checkScript(file, OptionSet::MegatronArguments));
        else if (file.name == kXMoeScript)
            PIPER_TRY(checkScript(file, OptionSet::MegatronDeepSpeedArguments));
        else if (file.name == kMegatronYaml)
            PIPER_TRY(statusOf(parseMegatronYaml(file)));
        else if (file.name == kDeepSpeedConfig)
            PIPER_TRY(statusOf(parseDeepSpeedConfig(file)));
        else if (file.name == kTorchtitanConfig)
            PIPER_TRY(statusOf(parseTorchtitanConfig(file)));
        else if (file.name == kSbatchScript)
            PIPER_TRY(statusOf(parseSbatch(file)));
        else if (file.name == kPlanFile)
            PIPER_TRY(statusOf(readPlanText(file.content, file.name)));
        else if (file.name != kDeepSpeedRest && file.name != kTorchtitanScript)
            return fail(ErrorCode::InvalidInput, "'{}' is not a file of an export", file.name);
    }
    return {};
}

}  // namespace piper
