// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace piper::sqlite {

/// One prepared statement. Binding and stepping never throw; the first fault is returned by step().
class Statement {
public:
    Statement(sqlite3* database, std::string_view sql);

    Statement& bind(std::int64_t value);
    Statement& bind(std::string_view text);
    Statement& bindBlob(std::string_view blob);

    /// SQLITE_ROW, SQLITE_DONE or the code of the fault.
    int step();
    /// Ready for the next row of bindings.
    void reset();

    [[nodiscard]] std::int64_t integer(int column) const;
    [[nodiscard]] bool isNull(int column) const;
    /// Valid until the next step.
    [[nodiscard]] std::string_view text(int column) const;

private:
    struct Finalize {
        void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
    };
    std::unique_ptr<sqlite3_stmt, Finalize> m_statement;
    int m_fault = SQLITE_OK;
    int m_bound = 0;
};

/// One connection, used by one thread at a time.
class Database {
public:
    enum class Mode { ReadOnly, ReadWrite, Create };
    /// Opens without reading anything of the file. Errors: see error().
    [[nodiscard]] static Result<Database> open(const std::string& path, Mode mode);

    [[nodiscard]] sqlite3* handle() const { return m_handle.get(); }
    [[nodiscard]] const std::string& path() const { return m_path; }

    Status execute(const char* sql);
    /// The first column of the first row as an integer.
    Result<std::int64_t> integer(std::string_view sql);
    Statement prepare(std::string_view sql) const { return {m_handle.get(), sql}; }

    /// What SQLite's code means to the user, with the path.
    [[nodiscard]] Error error(int code) const;

private:
    struct Close {
        void operator()(sqlite3* d) const { sqlite3_close_v2(d); }
    };
    std::unique_ptr<sqlite3, Close> m_handle;
    std::string m_path;
};

/// Everything since its start is undone unless commit() succeeded.
class Transaction {
public:
    explicit Transaction(Database& database);
    ~Transaction();
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    [[nodiscard]] const Status& status() const { return m_status; }
    Status commit();

private:
    Database& m_database;
    Status m_status;
    bool m_open = false;
};

}  // namespace piper::sqlite
