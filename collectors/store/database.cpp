// SPDX-License-Identifier: Apache-2.0
#include "collectors/store/database.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace piper::sqlite {
namespace {

constexpr int kBusyMilliseconds = 5000;
constexpr int kLargestValue = 256 << 20;  ///< a damaged length must not become an allocation

}  // namespace

Statement::Statement(sqlite3* database, std::string_view sql) {
    sqlite3_stmt* made = nullptr;
    m_fault =
        sqlite3_prepare_v2(database, sql.data(), static_cast<int>(sql.size()), &made, nullptr);
    m_statement.reset(made);
}

Statement& Statement::bind(std::int64_t value) {
    if (m_fault == SQLITE_OK) m_fault = sqlite3_bind_int64(m_statement.get(), ++m_bound, value);
    return *this;
}

Statement& Statement::bind(std::string_view text) {
    if (m_fault == SQLITE_OK)
        m_fault = sqlite3_bind_text64(m_statement.get(), ++m_bound, text.data() ? text.data() : "",
                                      text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
    return *this;
}

Statement& Statement::bindBlob(std::string_view blob) {
    if (m_fault == SQLITE_OK)
        m_fault = sqlite3_bind_blob64(m_statement.get(), ++m_bound, blob.data() ? blob.data() : "",
                                      blob.size(), SQLITE_TRANSIENT);
    return *this;
}

int Statement::step() {
    if (m_fault != SQLITE_OK) return m_fault;
    return sqlite3_step(m_statement.get());
}

void Statement::reset() {
    sqlite3_reset(m_statement.get());
    m_bound = 0;
}

std::int64_t Statement::integer(int column) const {
    return sqlite3_column_int64(m_statement.get(), column);
}

bool Statement::isNull(int column) const {
    return sqlite3_column_type(m_statement.get(), column) == SQLITE_NULL;
}

std::string_view Statement::text(int column) const {
    const void* data = sqlite3_column_blob(m_statement.get(), column);
    const int size = sqlite3_column_bytes(m_statement.get(), column);
    return data ? std::string_view(static_cast<const char*>(data), static_cast<std::size_t>(size))
                : std::string_view();
}

Result<Database> Database::open(const std::string& path, Mode mode) {
    Database out;
    out.m_path = path;
    struct stat file {};
    const bool exists = ::stat(path.c_str(), &file) == 0;
    if (!exists && mode != Mode::Create) {
        const ErrorCode code = errno == ENOENT ? ErrorCode::NotFound : ErrorCode::Io;
        return fail(code, "cannot open: {}", std::strerror(errno)).at(path);
    }
    if (exists && !S_ISREG(file.st_mode))
        return fail(ErrorCode::InvalidInput, "not a regular file").at(path);
    const int flags = mode == Mode::ReadOnly
                          ? SQLITE_OPEN_READONLY
                          : SQLITE_OPEN_READWRITE | (mode == Mode::Create ? SQLITE_OPEN_CREATE : 0);
    sqlite3* handle = nullptr;
    const int code = sqlite3_open_v2(path.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX, nullptr);
    out.m_handle.reset(handle);
    if (code != SQLITE_OK) return out.error(code);
    if (mode != Mode::ReadOnly && sqlite3_db_readonly(handle, "main") == 1)
        return fail(ErrorCode::Io, "no permission to write this file").at(path);
    sqlite3_extended_result_codes(handle, 1);
    sqlite3_busy_timeout(handle, kBusyMilliseconds);
    sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, kLargestValue);
    return out;
}

Status Database::execute(const char* sql) {
    const int code = sqlite3_exec(m_handle.get(), sql, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) return error(code);
    return {};
}

Result<std::int64_t> Database::integer(std::string_view sql) {
    Statement statement = prepare(sql);
    const int code = statement.step();
    if (code != SQLITE_ROW) return error(code);
    return statement.integer(0);
}

Error Database::error(int code) const {
    const char* detail = m_handle ? sqlite3_errmsg(m_handle.get()) : sqlite3_errstr(code);
    const int system = m_handle ? sqlite3_system_errno(m_handle.get()) : 0;
    const std::string cause = system ? std::string(": ") + std::strerror(system) : std::string();
    Error out;
    switch (code & 0xff) {
        case SQLITE_NOTADB:
            out = fail(ErrorCode::InvalidInput, "not a workspace file: not an SQLite database");
            break;
        case SQLITE_CORRUPT:
            out = fail(ErrorCode::InvalidInput, "the file is damaged: {}", detail);
            break;
        case SQLITE_FULL:
            out = fail(ErrorCode::Io, "the disk is full{}", cause);
            out.hint = "free some space; everything committed before is still in the file";
            break;
        case SQLITE_IOERR:
            out = fail(ErrorCode::Io, "reading or writing failed: {}{}", detail, cause);
            out.hint = "everything committed before is still in the file";
            break;
        case SQLITE_CANTOPEN:
            out = fail(ErrorCode::Io, "cannot open or create{}", cause);
            break;
        case SQLITE_READONLY:
        case SQLITE_PERM:
            out = fail(ErrorCode::Io, "no permission to write: {}", detail);
            break;
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
            out = fail(ErrorCode::Io, "another program has held the file for {} s",
                       kBusyMilliseconds / 1000);
            break;
        default:
            out = fail(ErrorCode::Io, "database fault {}: {}", code, detail);
    }
    return std::move(out).at(m_path);
}

Transaction::Transaction(Database& database) : m_database(database) {
    m_status = m_database.execute("BEGIN IMMEDIATE");
    m_open = m_status.ok();
}

Transaction::~Transaction() {
    if (m_open) sqlite3_exec(m_database.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

Status Transaction::commit() {
    if (!m_open) return m_status;
    PIPER_TRY(m_database.execute("COMMIT"));
    m_open = false;
    return {};
}

}  // namespace piper::sqlite
