// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QRegularExpression>
#include <QSyntaxHighlighter>
#include <QTextCharFormat>
#include <vector>

namespace piper::ui {

/// Colours of shell, YAML, TOML and JSON alike: options and keys, strings, numbers and words with a
/// meaning, comments, and lines that Slurm reads.
class FileHighlighter : public QSyntaxHighlighter {
    Q_OBJECT
public:
    FileHighlighter(QTextDocument* document, bool dark);
    void setDark(bool dark);

protected:
    void highlightBlock(const QString& text) override;

private:
    struct Rule {
        QRegularExpression pattern;  ///< what its first group catches is coloured
        QTextCharFormat format;
    };
    std::vector<Rule> m_rules;  ///< later ones over earlier ones
};

}  // namespace piper::ui
