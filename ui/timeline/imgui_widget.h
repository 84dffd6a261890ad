// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QColor>
#include <QOpenGLWidget>
#include <cstdint>
#include <vector>

struct ImGuiContext;

namespace piper::ui {

/// Dear ImGui inside a QOpenGLWidget: the only place that knows both. One context a widget; frames
/// are drawn on demand, never by a timer. Font atlas and frame buffer follow the screen's scale;
/// a re-created GL context (another screen, a new parent) re-creates the device objects.
class ImGuiWidget : public QOpenGLWidget {
    Q_OBJECT
public:
    explicit ImGuiWidget(QWidget* parent = nullptr);
    ~ImGuiWidget() override;

    /// Frames painted so far; 0 means that no GL context could be made.
    [[nodiscard]] int framesPainted() const { return m_frames; }
    /// CPU milliseconds that building the last frame took, without GL.
    [[nodiscard]] double lastBuildMs() const { return m_build_ms; }

Q_SIGNALS:
    void framePainted();

protected:
    /// Called between NewFrame and Render, in logical pixels.
    virtual void drawFrame() = 0;
    [[nodiscard]] virtual QColor background() const = 0;

    /// A picture for ImDrawList::AddImage, whose pixels setStrips() gives in the same frame.
    [[nodiscard]] void* stripTexture();
    /// Pixels as ImGui packs colours, line after line; taken as they are, without smoothing.
    void setStrips(const std::vector<std::uint32_t>& pixels, std::size_t columns,
                   std::size_t lines);

    void initializeGL() override;
    void paintGL() override;
    bool event(QEvent* event) override;

private:
    void shutdownGL();
    void ensureFont(double ratio);

    ImGuiContext* m_context = nullptr;
    bool m_backend_ready = false;
    unsigned m_strip_texture = 0;
    double m_font_ratio = 0.0;
    int m_frames = 0;
    double m_build_ms = 0.0;
};

}  // namespace piper::ui
