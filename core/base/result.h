// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <variant>

#include "core/base/check.h"

namespace piper {

/// What kind of fault an error is; the programs map it to their exit status (docs/commands.md).
enum class ErrorCode {
    InvalidInput,  ///< unusable input: exit status 2
    RuleBroken,    ///< a negative answer, a rule broken, does not fit: exit status 1
    NotFound,      ///< a named thing does not exist: exit status 2
    Unsupported,   ///< not available or not measurable here: exit status 3
    Io,            ///< file, disk, database: exit status 3
    External,      ///< host, device, dead worker, NaN: exit status 3
    Cancelled,     ///< the user stopped it: exit status 130
};

/// A fault of the user or of the outside world.
/// message names the value, the rule and the numbers; hint says what to do;
/// where is a file, key or field ("plan.json: layout.pp"); context is what was being done.
struct Error {
    ErrorCode code = ErrorCode::InvalidInput;
    std::string message;
    std::string where;
    std::string context;
    std::string hint;

    /// "where: message (context). hint", with the empty parts left out.
    [[nodiscard]] std::string text() const {
        std::string out = where.empty() ? message : where + ": " + message;
        if (!context.empty()) out += " (" + context + ")";
        if (!hint.empty()) out += "\n  hint: " + hint;
        return out;
    }
    [[nodiscard]] Error withContext(std::string text) && {
        context = context.empty() ? std::move(text) : std::move(text) + ": " + context;
        return std::move(*this);
    }
    [[nodiscard]] Error at(std::string place) && {
        where = where.empty() ? std::move(place) : std::move(place) + ": " + where;
        return std::move(*this);
    }
};

/// Exit status of a program that ends with this error (INTERFACES: conventions).
[[nodiscard]] inline int exitStatus(ErrorCode code) {
    switch (code) {
        case ErrorCode::InvalidInput:
        case ErrorCode::NotFound:
            return 2;
        case ErrorCode::RuleBroken:
            return 1;
        case ErrorCode::Cancelled:
            return 130;
        case ErrorCode::Unsupported:
        case ErrorCode::Io:
        case ErrorCode::External:
            return 3;
    }
    return 3;
}

/// A value or an Error. `Result<void>` is `Status`.
template <class T>
class [[nodiscard]] Result {
public:
    Result(T value) : m_state(std::move(value)) {}      // NOLINT(google-explicit-constructor)
    Result(Error error) : m_state(std::move(error)) {}  // NOLINT(google-explicit-constructor)

    [[nodiscard]] bool ok() const { return std::holds_alternative<T>(m_state); }
    explicit operator bool() const { return ok(); }

    [[nodiscard]] const T& value() const& {
        PIPER_CHECK(ok());
        return std::get<T>(m_state);
    }
    [[nodiscard]] T& value() & {
        PIPER_CHECK(ok());
        return std::get<T>(m_state);
    }
    [[nodiscard]] T&& value() && {
        PIPER_CHECK(ok());
        return std::get<T>(std::move(m_state));
    }
    const T& operator*() const& { return value(); }
    T& operator*() & { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    const T* operator->() const { return &value(); }
    T* operator->() { return &value(); }

    [[nodiscard]] const Error& error() const& {
        PIPER_CHECK(!ok());
        return std::get<Error>(m_state);
    }
    [[nodiscard]] Error&& error() && {
        PIPER_CHECK(!ok());
        return std::get<Error>(std::move(m_state));
    }

private:
    std::variant<T, Error> m_state;
};

template <>
class [[nodiscard]] Result<void> {
public:
    Result() = default;
    Result(Error error)
        : m_error(std::move(error)), m_ok(false) {}  // NOLINT(google-explicit-constructor)

    [[nodiscard]] bool ok() const { return m_ok; }
    explicit operator bool() const { return m_ok; }
    [[nodiscard]] const Error& error() const& {
        PIPER_CHECK(!m_ok);
        return m_error;
    }
    [[nodiscard]] Error&& error() && {
        PIPER_CHECK(!m_ok);
        return std::move(m_error);
    }

private:
    Error m_error;
    bool m_ok = true;
};

using Status = Result<void>;

/// Makes an Error with a formatted message: `fail(ErrorCode::InvalidInput, "pp {} > {}", pp, n)`.
template <class... Args>
[[nodiscard]] Error fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
    Error error;
    error.code = code;
    error.message = fmt::format(format, std::forward<Args>(args)...);
    return error;
}

}  // namespace piper

/// Returns the error of a Result from the enclosing function.
#define PIPER_TRY(expression)                                           \
    do {                                                                \
        auto piper_status = (expression);                               \
        if (!piper_status.ok()) return std::move(piper_status).error(); \
    } while (false)

#define PIPER_JOIN2(a, b) a##b
#define PIPER_JOIN(a, b) PIPER_JOIN2(a, b)
/// `PIPER_ASSIGN(auto plan, readPlan(path));` declares the value or returns the error.
#define PIPER_ASSIGN(declaration, expression) \
    PIPER_ASSIGN_IMPL(PIPER_JOIN(piper_result_, __LINE__), declaration, expression)
#define PIPER_ASSIGN_IMPL(name, declaration, expression) \
    auto name = (expression);                            \
    if (!name.ok()) return std::move(name).error();      \
    declaration = std::move(name).value()
