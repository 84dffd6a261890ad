// SPDX-License-Identifier: Apache-2.0
#include "collectors/import/byte_source.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace piper {
namespace {

constexpr std::size_t kCompressedBlock = std::size_t{1} << 18;
constexpr int kGzip = 15 + 16;
/// Of one call: zlib counts in 32 bits.
constexpr std::size_t kLargestRead = std::size_t{1} << 30;
/// Byte order mark, as editors of other systems put before a text.
constexpr std::string_view kMark = "\xef\xbb\xbf";

}  // namespace

struct ByteSource::Impl {
    struct CloseFile {
        void operator()(std::FILE* f) const { std::fclose(f); }
    };

    std::unique_ptr<std::FILE, CloseFile> file;
    bool compressed = false;
    bool member_open = false;
    bool begun = false;     ///< something was read
    bool finished = false;  ///< a member was read to its end
    z_stream stream{};
    std::unique_ptr<char[]> input;
    std::string fault;

    ~Impl() {
        if (compressed) inflateEnd(&stream);
    }

    std::size_t readFile(char* to, std::size_t size) {
        const std::size_t got = std::fread(to, 1, size, file.get());
        if (got < size && std::ferror(file.get()))
            fault = std::string("reading failed: ") + std::strerror(errno);
        return got;
    }

    std::size_t inflateSome(char* to, std::size_t size);
    std::size_t read(char* to, std::size_t size) {
        if (size == 0 || !fault.empty()) return 0;
        return compressed ? inflateSome(to, size) : readFile(to, size);
    }
};

std::size_t ByteSource::Impl::inflateSome(char* to, std::size_t size) {
    size = std::min(size, kLargestRead);
    stream.next_out = reinterpret_cast<Bytef*>(to);
    stream.avail_out = static_cast<uInt>(size);
    while (stream.avail_out == size && fault.empty()) {
        if (stream.avail_in == 0) {
            stream.next_in = reinterpret_cast<Bytef*>(input.get());
            stream.avail_in = static_cast<uInt>(readFile(input.get(), kCompressedBlock));
            if (stream.avail_in == 0) {
                if (member_open) fault = "the compressed stream ends too early";
                return 0;
            }
        }
        if (!member_open && finished) {
            // Zeros fill up the last block behind the last member.
            while (stream.avail_in > 0 && *stream.next_in == 0) ++stream.next_in, --stream.avail_in;
            if (stream.avail_in == 0) continue;
        }
        if (!member_open && inflateReset(&stream) != Z_OK) return 0;
        member_open = true;
        const int code = inflate(&stream, Z_NO_FLUSH);
        if (code == Z_STREAM_END) {
            member_open = false;
            finished = true;
        } else if (code != Z_OK && code != Z_BUF_ERROR) {
            fault = std::string("the compressed stream is damaged: ") +
                    (stream.msg ? stream.msg : "unknown fault");
        }
    }
    return size - stream.avail_out;
}

ByteSource::ByteSource(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {}
ByteSource::ByteSource(ByteSource&&) noexcept = default;
ByteSource& ByteSource::operator=(ByteSource&&) noexcept = default;
ByteSource::~ByteSource() = default;

Result<ByteSource> ByteSource::open(const std::filesystem::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0)
        return fail(errno == ENOENT ? ErrorCode::NotFound : ErrorCode::Io, "cannot open: {}",
                    std::strerror(errno))
            .at(path.string());
    if (S_ISDIR(status.st_mode))
        return fail(ErrorCode::InvalidInput, "is a directory").at(path.string());
    if (!S_ISREG(status.st_mode))
        return fail(ErrorCode::InvalidInput, "is no regular file").at(path.string());
    auto impl = std::make_unique<Impl>();
    impl->file.reset(std::fopen(path.c_str(), "rb"));
    if (!impl->file)
        return fail(ErrorCode::Io, "cannot open: {}", std::strerror(errno)).at(path.string());
    std::setvbuf(impl->file.get(), nullptr, _IONBF, 0);
    unsigned char magic[2] = {};
    const std::size_t got = std::fread(magic, 1, 2, impl->file.get());
    std::rewind(impl->file.get());
    if (got == 2 && magic[0] == 0x1f && magic[1] == 0x8b) {
        if (inflateInit2(&impl->stream, kGzip) != Z_OK)
            return fail(ErrorCode::Io, "no memory to decompress").at(path.string());
        impl->compressed = true;
        impl->input = std::make_unique<char[]>(kCompressedBlock);
    }
    return ByteSource(std::move(impl));
}

std::size_t ByteSource::read(char* to, std::size_t size) {
    const std::size_t got = m_impl->read(to, size);
    if (m_impl->begun || got == 0) return got;
    m_impl->begun = true;
    std::size_t length = got;
    while (length < std::min(size, kMark.size())) {
        const std::size_t more = m_impl->read(to + length, size - length);
        if (more == 0) break;
        length += more;
    }
    if (!std::string_view(to, length).starts_with(kMark)) return length;
    if (length == kMark.size()) return m_impl->read(to, size);
    std::memmove(to, to + kMark.size(), length - kMark.size());
    return length - kMark.size();
}

const std::string& ByteSource::fault() const {
    return m_impl->fault;
}

ByteWindow::ByteWindow(ByteSource& source, std::size_t block)
    : m_source(source), m_data(new char[block + kSlack]()), m_capacity(block) {}

void ByteWindow::consumeTo(const char* place) {
    const auto to = static_cast<std::size_t>(place - m_data.get());
    m_position += static_cast<std::int64_t>(to - m_begin);
    m_begin = to;
}

void ByteWindow::refill() {
    const std::size_t kept = m_end - m_begin;
    if (2 * kept > m_capacity && m_capacity < kLongestValue) {
        m_capacity *= 2;
        std::unique_ptr<char[]> larger(new char[m_capacity + kSlack]());
        std::memcpy(larger.get(), begin(), kept);
        m_data = std::move(larger);
    } else {
        std::memmove(m_data.get(), begin(), kept);
    }
    m_begin = 0;
    m_end = kept;
    while (m_end < m_capacity && !m_at_end) {
        const std::size_t got = m_source.read(m_data.get() + m_end, m_capacity - m_end);
        m_end += got;
        m_at_end = got == 0;
    }
}

}  // namespace piper
