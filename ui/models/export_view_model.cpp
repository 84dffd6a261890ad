// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/export_view_model.h"

#include <QDir>

#include "ui/models/file_io.h"
#include "ui/models/text_format.h"

namespace piper::ui {

std::span<const ExportTarget> exportTargets() {
    static constexpr ExportTarget kTargets[] = {
        ExportTarget::Megatron, ExportTarget::MegatronYaml, ExportTarget::DeepSpeed,
        ExportTarget::XMoe,     ExportTarget::Torchtitan,   ExportTarget::Slurm};
    return kTargets;
}

QString targetLabel(ExportTarget target) {
    switch (target) {
        case ExportTarget::Megatron:
            return QStringLiteral("Megatron-LM arguments");
        case ExportTarget::MegatronYaml:
            return QStringLiteral("Megatron-LM YAML");
        case ExportTarget::DeepSpeed:
            return QStringLiteral("DeepSpeed JSON");
        case ExportTarget::XMoe:
            return QStringLiteral("X-MoE");
        case ExportTarget::Torchtitan:
            return QStringLiteral("torchtitan TOML");
        case ExportTarget::Slurm:
            return QStringLiteral("Slurm sbatch");
    }
    return {};
}

Status saveExport(const Export& files, const QString& directory) {
    if (!QDir().mkpath(directory))
        return fail(ErrorCode::Io, "cannot make the directory {}", directory.toStdString());
    for (const ExportedFile& file : files.files)
        PIPER_TRY(
            writeFile(QDir(directory).filePath(text(file.name)), file.content, file.executable));
    return {};
}

ExportViewModel::ExportViewModel(Executor& executor, PlanViewModel& plan, QObject* parent)
    : QObject(parent), m_executor(executor), m_plan(plan) {}

void ExportViewModel::setTarget(ExportTarget target) {
    m_target = target;
    refresh();
}

void ExportViewModel::refresh() {
    if (!m_plan.hasPlan()) return;
    m_executor.submit(QStringLiteral("export"), Executor::Lane::Background,
                      [plan = m_plan.sharedPlan(), target = m_target,
                       this](const Executor::Context&) -> Executor::OnWindow {
                          auto made = std::make_shared<Result<Export>>(exportPlan(*plan, target));
                          return [made, this] {
                              m_saved.clear();
                              m_fault = made->ok() ? QString() : errorText(made->error());
                              m_result = made->ok() ? std::move(*made).value() : Export{};
                              Q_EMIT changed();
                          };
                      });
}

void ExportViewModel::save(const QString& directory) {
    m_executor.submit(
        QStringLiteral("save-export"), Executor::Lane::Background,
        [files = m_result, directory, this](const Executor::Context&) -> Executor::OnWindow {
            const Status status = saveExport(files, directory);
            const QString said =
                status.ok()
                    ? QStringLiteral("Saved %1 files to %2").arg(files.files.size()).arg(directory)
                    : errorText(status.error());
            return [said, this] { setSaved(said); };
        });
}

void ExportViewModel::setSaved(const QString& said) {
    m_saved = said;
    Q_EMIT changed();
}

}  // namespace piper::ui
