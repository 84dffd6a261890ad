// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <span>

#include "core/export/export.h"
#include "ui/models/executor.h"
#include "ui/models/plan_view_model.h"

namespace piper::ui {

/// The files of the current plan for one framework, made and saved on the executor.
class ExportViewModel : public QObject {
    Q_OBJECT
public:
    ExportViewModel(Executor& executor, PlanViewModel& plan, QObject* parent = nullptr);

    [[nodiscard]] ExportTarget target() const { return m_target; }
    [[nodiscard]] const Export& result() const { return m_result; }
    /// Why there is nothing to preview; empty when there is.
    [[nodiscard]] const QString& fault() const { return m_fault; }
    /// What became of the last request to save something; empty once other files are shown.
    [[nodiscard]] const QString& saved() const { return m_saved; }

    void setTarget(ExportTarget target);
    /// Makes the files anew: called when the page comes to front or the plan changed.
    void refresh();
    void setSaved(const QString& said);
    void save(const QString& directory);

Q_SIGNALS:
    void changed();

private:
    Executor& m_executor;
    PlanViewModel& m_plan;
    ExportTarget m_target = ExportTarget::Megatron;
    Export m_result;
    QString m_fault;
    QString m_saved;
};

/// In the order of lists and menus.
[[nodiscard]] std::span<const ExportTarget> exportTargets();
[[nodiscard]] QString targetLabel(ExportTarget target);
/// Writes every file below the directory, each through a temporary name and a rename.
[[nodiscard]] Status saveExport(const Export& files, const QString& directory);

}  // namespace piper::ui
