// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/file_highlighter.h"

namespace piper::ui {

FileHighlighter::FileHighlighter(QTextDocument* document, bool dark)
    : QSyntaxHighlighter(document) {
    setDark(dark);
}

void FileHighlighter::setDark(bool dark) {
    const auto format = [dark](const char* light_colour, const char* dark_colour) {
        QTextCharFormat out;
        out.setForeground(QColor(QLatin1String(dark ? dark_colour : light_colour)));
        return out;
    };
    const QTextCharFormat key = format("#1f5fa8", "#6cb2f0"), number = format("#8a4b08", "#e5a35c"),
                          string = format("#1b7a4b", "#6fcf97"),
                          comment = format("#68727d", "#8b949e"),
                          directive = format("#8b3a86", "#d58bd0");
    const auto rule = [](const char* pattern, const QTextCharFormat& colours) {
        return Rule{QRegularExpression(QString::fromUtf8(pattern)), colours};
    };
    m_rules = {
        rule(R"(\b(\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?)\b)", number),
        rule(R"(\b(true|false|null|True|False|None)\b)", number),
        rule(R"((?:^|\s)(--?[A-Za-z][\w-]*))", key),
        rule(R"(^\s*(?:- )?([\w.-]+)(?=\s*[:=]))", key),
        rule(R"(^\s*(\[[\w.\[\]-]+\])\s*$)", directive),
        rule(R"(("(?:[^"\\]|\\.)*"))", string),
        rule(R"(('[^']*'))", string),
        rule(R"(("(?:[^"\\]|\\.)*")(?=\s*:))", key),
        rule(R"((?:^|\s)(#.*)$)", comment),
        rule(R"(^(#SBATCH)\b)", directive),
    };
    rehighlight();
}

void FileHighlighter::highlightBlock(const QString& text) {
    for (const Rule& rule : m_rules) {
        auto found = rule.pattern.globalMatch(text);
        while (found.hasNext()) {
            const QRegularExpressionMatch match = found.next();
            setFormat(static_cast<int>(match.capturedStart(1)),
                      static_cast<int>(match.capturedLength(1)), rule.format);
        }
    }
}

}  // namespace piper::ui
