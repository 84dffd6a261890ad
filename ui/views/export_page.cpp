// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/export_page.h"

#include <QClipboard>
#include <QComboBox>
#include <QFileDialog>
#include <QFontDatabase>
#include <QGuiApplication>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSignalBlocker>
#include <QTabBar>
#include <QVBoxLayout>

#include "ui/models/text_format.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

constexpr ExportTarget kTargets[] = {ExportTarget::Megatron,   ExportTarget::MegatronYaml,
                                     ExportTarget::DeepSpeed,  ExportTarget::XMoe,
                                     ExportTarget::Torchtitan, ExportTarget::Slurm};

}  // namespace

ExportPage::ExportPage(Workbench& workbench, QWidget* parent)
    : QWidget(parent), m_workbench(workbench) {
    auto* page = makePageLayout(this, QStringLiteral("Export"));
    page->addWidget(makeControls());
    m_note = makeLabel({}, "faint", this);
    m_note->setWordWrap(true);
    page->addWidget(m_note);
    m_files = new QTabBar(this);
    m_files->setExpanding(false);
    m_files->setDrawBase(false);
    page->addWidget(m_files);
    m_text = new QPlainTextEdit(this);
    m_text->setObjectName(QStringLiteral("preview"));
    m_text->setReadOnly(true);
    m_text->setLineWrapMode(QPlainTextEdit::NoWrap);
    m_text->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    page->addWidget(m_text, 1);
    connect(m_files, &QTabBar::currentChanged, this, &ExportPage::showFile);
    connect(&workbench.exporting, &ExportViewModel::changed, this, &ExportPage::take);
    connect(&workbench.plan, &PlanViewModel::planChanged, this, [this] {
        if (isVisible()) m_workbench.exporting.refresh();
    });
    take();
}

QWidget* ExportPage::makeControls() {
    auto* bar = new QWidget(this);
    auto* layout = new QHBoxLayout(bar);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(kSpacing);
    m_target = new QComboBox(bar);
    m_target->setObjectName(QStringLiteral("target"));
    for (const ExportTarget target : kTargets)
        m_target->addItem(targetLabel(target), static_cast<int>(target));
    m_save = new QPushButton(QStringLiteral("Save…"), bar);
    m_copy = new QPushButton(QStringLiteral("Copy"), bar);
    m_saved = makeLabel({}, "faint", bar);
    layout->addWidget(new QLabel(QStringLiteral("Files for"), bar));
    layout->addWidget(m_target);
    layout->addWidget(m_save);
    layout->addWidget(m_copy);
    layout->addWidget(m_saved, 1);
    connect(m_target, &QComboBox::activated, this, [this] {
        m_workbench.exporting.setTarget(static_cast<ExportTarget>(m_target->currentData().toInt()));
    });
    connect(m_save, &QPushButton::clicked, this, &ExportPage::save);
    connect(m_copy, &QPushButton::clicked, this,
            [this] { QGuiApplication::clipboard()->setText(m_text->toPlainText()); });
    return bar;
}

void ExportPage::showEvent(QShowEvent* event) {
    QWidget::showEvent(event);
    m_workbench.exporting.refresh();
}

void ExportPage::save() {
    const QString directory =
        QFileDialog::getExistingDirectory(this, QStringLiteral("Save the files in"));
    if (!directory.isEmpty()) m_workbench.exporting.save(directory);
}

void ExportPage::take() {
    const ExportViewModel& exporting = m_workbench.exporting;
    const Export& made = exporting.result();
    QString note = exporting.fault();
    if (note.isEmpty() && !made.not_expressed.empty()) {
        QStringList parts;
        for (const std::string& part : made.not_expressed) parts << text(part);
        note = QStringLiteral("Not expressed, because the framework has no option for it: ") +
               parts.join(QStringLiteral("; "));
    }
    m_note->setText(note);
    m_note->setVisible(!note.isEmpty());
    m_saved->setText(exporting.saved());
    m_save->setEnabled(!made.files.empty());
    m_copy->setEnabled(!made.files.empty());
    const int was = m_files->currentIndex();
    {
        const QSignalBlocker quiet(m_files);
        while (m_files->count() > 0) m_files->removeTab(0);
        for (const ExportedFile& file : made.files) m_files->addTab(text(file.name));
    }
    m_files->setVisible(m_files->count() > 0);
    if (m_files->count() > 0) m_files->setCurrentIndex(std::clamp(was, 0, m_files->count() - 1));
    showFile(m_files->currentIndex());
}

void ExportPage::showFile(int index) {
    const auto& files = m_workbench.exporting.result().files;
    const bool there = index >= 0 && static_cast<std::size_t>(index) < files.size();
    m_text->setPlainText(there ? text(files[static_cast<std::size_t>(index)].content) : QString());
}

}  // namespace piper::ui
