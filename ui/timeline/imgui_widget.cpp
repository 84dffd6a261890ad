// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/imgui_widget.h"

#include <backends/imgui_impl_opengl3.h>
#include <imgui.h>

#include <QElapsedTimer>
#include <QFileInfo>
#include <QMouseEvent>
#include <QOpenGLContext>
#include <QOpenGLFunctions>
#include <limits>

namespace piper::ui {
namespace {

constexpr float kFontPixels = 13.0F;
constexpr const char* kFonts[] = {"/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
                                  "/usr/share/fonts/dejavu/DejaVuSans.ttf",
                                  "/usr/share/fonts/TTF/DejaVuSans.ttf"};
// Latin, the middle dot and dashes, arrows, micro.
constexpr ImWchar kGlyphs[] = {0x0020, 0x00ff, 0x0370, 0x03ff, 0x2010, 0x2044,
                               0x2190, 0x21ff, 0x2200, 0x22ff, 0};

}  // namespace

ImGuiWidget::ImGuiWidget(QWidget* parent) : QOpenGLWidget(parent) {
    // Setters send events, and event() needs the context.
    m_context = ImGui::CreateContext();
    ImGui::SetCurrentContext(m_context);
    ImGui::GetIO().IniFilename = nullptr;
    ImGui::GetIO().MousePos = ImVec2(-FLT_MAX, -FLT_MAX);
    setMouseTracking(true);
    setFocusPolicy(Qt::StrongFocus);
}

ImGuiWidget::~ImGuiWidget() {
    shutdownGL();
    // The base class destroys its GL context later, when this slot's class is gone.
    if (context() != nullptr) disconnect(context(), nullptr, this, nullptr);
    ImGui::DestroyContext(m_context);
}

void ImGuiWidget::initializeGL() {
    ImGui::SetCurrentContext(m_context);
    connect(context(), &QOpenGLContext::aboutToBeDestroyed, this, &ImGuiWidget::shutdownGL,
            Qt::UniqueConnection);
    m_backend_ready = ImGui_ImplOpenGL3_Init("#version 330");
    m_font_ratio = 0.0;
}

void ImGuiWidget::shutdownGL() {
    if (!m_backend_ready) return;
    makeCurrent();
    ImGui::SetCurrentContext(m_context);
    ImGui_ImplOpenGL3_Shutdown();
    if (m_strip_texture != 0) context()->functions()->glDeleteTextures(1, &m_strip_texture);
    m_strip_texture = 0;
    m_backend_ready = false;
    doneCurrent();
}

void ImGuiWidget::ensureFont(double ratio) {
    if (qFuzzyCompare(ratio, m_font_ratio)) return;
    m_font_ratio = ratio;
    ImGuiIO& io = ImGui::GetIO();
    io.Fonts->Clear();
    const auto pixels = static_cast<float>(kFontPixels * ratio);
    bool loaded = false;
    for (const char* path : kFonts)
        if (!loaded && QFileInfo::exists(QString::fromLatin1(path)))
            loaded = io.Fonts->AddFontFromFileTTF(path, pixels, nullptr, kGlyphs) != nullptr;
    if (!loaded) {
        ImFontConfig config;
        config.SizePixels = pixels;
        io.Fonts->AddFontDefault(&config);
    }
    io.FontGlobalScale = static_cast<float>(1.0 / ratio);
    ImGui_ImplOpenGL3_DestroyFontsTexture();
    ImGui_ImplOpenGL3_CreateFontsTexture();
}

void ImGuiWidget::paintGL() {
    const QColor back = background();
    QOpenGLFunctions* gl = context()->functions();
    gl->glClearColor(back.redF(), back.greenF(), back.blueF(), 1.0F);
    gl->glClear(GL_COLOR_BUFFER_BIT);
    if (!m_backend_ready) return;

    QElapsedTimer timer;
    timer.start();
    ImGui::SetCurrentContext(m_context);
    const double ratio = devicePixelRatioF();
    ensureFont(ratio);
    ImGuiIO& io = ImGui::GetIO();
    io.DisplaySize = ImVec2(static_cast<float>(width()), static_cast<float>(height()));
    io.DisplayFramebufferScale = ImVec2(static_cast<float>(ratio), static_cast<float>(ratio));
    io.DeltaTime = 1.0F / 60.0F;
    ImGui_ImplOpenGL3_NewFrame();
    ImGui::NewFrame();
    drawFrame();
    ImGui::Render();
    m_build_ms = static_cast<double>(timer.nsecsElapsed()) * 1e-6;
    ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
    ++m_frames;
    Q_EMIT framePainted();
}

void* ImGuiWidget::stripTexture() {
    if (m_strip_texture == 0) context()->functions()->glGenTextures(1, &m_strip_texture);
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(m_strip_texture));
}

void ImGuiWidget::setStrips(const std::vector<std::uint32_t>& pixels, std::size_t columns,
                            std::size_t lines) {
    QOpenGLFunctions* gl = context()->functions();
    gl->glBindTexture(GL_TEXTURE_2D, m_strip_texture);
    for (const auto name : {GL_TEXTURE_MIN_FILTER, GL_TEXTURE_MAG_FILTER})
        gl->glTexParameteri(GL_TEXTURE_2D, static_cast<GLenum>(name), GL_NEAREST);
    for (const auto name : {GL_TEXTURE_WRAP_S, GL_TEXTURE_WRAP_T})
        gl->glTexParameteri(GL_TEXTURE_2D, static_cast<GLenum>(name), GL_CLAMP_TO_EDGE);
    gl->glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, static_cast<GLsizei>(columns),
                     static_cast<GLsizei>(lines), 0, GL_RGBA, GL_UNSIGNED_BYTE, pixels.data());
}

bool ImGuiWidget::event(QEvent* event) {
    ImGui::SetCurrentContext(m_context);
    ImGuiIO& io = ImGui::GetIO();
    switch (event->type()) {
        case QEvent::MouseMove:
        case QEvent::MouseButtonPress:
        case QEvent::MouseButtonRelease: {
            const QPointF at = static_cast<QMouseEvent*>(event)->position();
            io.MousePos = ImVec2(static_cast<float>(at.x()), static_cast<float>(at.y()));
            update();
            break;
        }
        case QEvent::Leave:
            io.MousePos = ImVec2(-FLT_MAX, -FLT_MAX);
            update();
            break;
        default:
            break;
    }
    return QOpenGLWidget::event(event);
}

}  // namespace piper::ui
