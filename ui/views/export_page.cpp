// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/export_page.h"

#include <QClipboard>
#include <QComboBox>
#include <QEvent>
#include <QFileDialog>
#include <QFontDatabase>
#include <QGuiApplication>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSignalBlocker>
#include <QTabBar>
#include <QVBoxLayout>

#include "ui/models/text_format.h"
#include "ui/views/file_highlighter.h"
#include "ui/views/report_maker.h"
#include "ui/views/theme.h"
#include "ui/views/widgets.h"

namespace piper::ui {

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
    m_text->setAccessibleName(QStringLiteral("File"));
    m_text->setLineWrapMode(QPlainTextEdit::NoWrap);
    m_text->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    m_highlighter = new FileHighlighter(m_text->document(), isDark(palette()));
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
    for (const ExportTarget target : exportTargets())
        m_target->addItem(targetLabel(target), static_cast<int>(target));
    m_target->setAccessibleName(QStringLiteral("Framework to export for"));
    m_save = new QPushButton(QStringLiteral("Save…"), bar);
    m_save->setObjectName(QStringLiteral("export.save"));
    m_copy = new QPushButton(QStringLiteral("Copy"), bar);
    m_copy->setObjectName(QStringLiteral("export.copy"));
    m_report = new QPushButton(QStringLiteral("Save report…"), bar);
    m_report->setObjectName(QStringLiteral("export.report"));
    m_report->setToolTip(
        QStringLiteral("The plan with its numbers, plots and reasons for somebody else to read: "
                       "PDF, HTML, PNG and CSV"));
    m_saved = makeLabel({}, "faint", bar);
    m_saved->setObjectName(QStringLiteral("export.saved"));
    m_saved->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    m_saved->setTextInteractionFlags(Qt::TextSelectableByMouse);
    layout->addWidget(new QLabel(QStringLiteral("Files for"), bar));
    layout->addWidget(m_target);
    layout->addWidget(m_save);
    layout->addWidget(m_copy);
    layout->addWidget(m_report);
    layout->addWidget(m_saved, 1);
    connect(m_target, &QComboBox::activated, this, [this] {
        m_workbench.exporting.setTarget(static_cast<ExportTarget>(m_target->currentData().toInt()));
    });
    connect(m_save, &QPushButton::clicked, this, &ExportPage::save);
    connect(m_report, &QPushButton::clicked, this, &ExportPage::chooseReport);
    connect(m_copy, &QPushButton::clicked, this,
            [this] { QGuiApplication::clipboard()->setText(m_text->toPlainText()); });
    return bar;
}

void ExportPage::showEvent(QShowEvent* event) {
    QWidget::showEvent(event);
    m_workbench.exporting.refresh();
}

void ExportPage::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange && m_highlighter != nullptr)
        m_highlighter->setDark(isDark(palette()));
}

void ExportPage::chooseTarget(ExportTarget target) {
    m_target->setCurrentIndex(m_target->findData(static_cast<int>(target)));
    m_workbench.exporting.setTarget(target);
}

void ExportPage::save() {
    const QString directory =
        QFileDialog::getExistingDirectory(this, QStringLiteral("Save the files in"));
    if (!directory.isEmpty()) m_workbench.exporting.save(directory);
}

void ExportPage::chooseReport() {
    const QString directory =
        QFileDialog::getExistingDirectory(this, QStringLiteral("Save the report in"));
    if (!directory.isEmpty()) saveReport(directory);
}

void ExportPage::saveReport(const QString& directory) {
    if (!m_report->isEnabled()) return;  // one is being written
    auto* maker = new ReportMaker(m_workbench, directory, this);
    m_report->setEnabled(false);
    m_workbench.exporting.setSaved(QStringLiteral("Writing the report…"));
    connect(maker, &ReportMaker::finished, this, [this](bool, const QString& said) {
        m_report->setEnabled(true);
        m_workbench.exporting.setSaved(said);
    });
    maker->start();
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
    m_saved->setToolTip(exporting.saved());
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
