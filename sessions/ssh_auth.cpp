// SPDX-License-Identifier: Apache-2.0
#include "sessions/ssh_auth.h"

#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include "sessions/agent_filter.h"
#include "sessions/display_text.h"
#include "sessions/ssh_handles.h"

namespace piper {
namespace {

constexpr int kMostRounds = 8;  ///< factors one after another
constexpr int kMostPassphrases = 3;
constexpr int kMostQuestionRounds = 20;  ///< of keyboard-interactive, within one attempt

void wipe(std::string& secret) {
    explicit_bzero(secret.data(), secret.size());
    secret.clear();
}

class Login {
public:
    Login(ssh_session session, const SshHostConfig& host, SshPrompter* prompter)
        : m_session(session), m_host(host), m_prompter(host.batch_mode ? nullptr : prompter) {}

    Status run() {
        int outcome = ssh_userauth_none(m_session, nullptr);
        for (int round = 0; round < kMostRounds; ++round) {
            if (outcome == SSH_AUTH_SUCCESS) return {};
            if (outcome == SSH_AUTH_ERROR || !ssh_is_connected(m_session)) return lost();
            const int methods = ssh_userauth_list(m_session, nullptr);
            PIPER_ASSIGN(outcome, tryMethods(methods));
            if (outcome == SSH_AUTH_DENIED) return refused(methods);
        }
        return fail(ErrorCode::External,
                    "{} asked for more than {} ways to log in one after "
                    "another",
                    m_host.address(), kMostRounds);
    }

private:
    /// SUCCESS, PARTIAL (another factor is wanted), or DENIED when nothing is left to try.
    Result<int> tryMethods(int methods) {
        if ((methods & SSH_AUTH_METHOD_PUBLICKEY) != 0 && m_host.public_key) {
            PIPER_ASSIGN(const int outcome, tryKeys());
            if (isEnd(outcome)) return outcome;
        }
        if ((methods & SSH_AUTH_METHOD_INTERACTIVE) != 0 && m_host.keyboard_interactive) {
            PIPER_ASSIGN(const int outcome, tryInteractive());
            if (isEnd(outcome)) return outcome;
        }
        if ((methods & SSH_AUTH_METHOD_PASSWORD) != 0 && m_host.password) {
            PIPER_ASSIGN(const int outcome, tryPassword());
            if (isEnd(outcome)) return outcome;
        }
        return SSH_AUTH_DENIED;
    }

    static bool isEnd(int outcome) {
        return outcome == SSH_AUTH_SUCCESS || outcome == SSH_AUTH_PARTIAL ||
               outcome == SSH_AUTH_ERROR;
    }

    Result<int> tryKeys() {
        if (!m_agent_used) {
            PIPER_ASSIGN(const int outcome, tryAgent());
            if (outcome == SSH_AUTH_PARTIAL) m_agent_used = true;
            if (outcome == SSH_AUTH_SUCCESS || outcome == SSH_AUTH_PARTIAL) return outcome;
        }
        for (const std::string& file : m_host.identity_files) {
            if (std::find(m_used_keys.begin(), m_used_keys.end(), file) != m_used_keys.end())
                continue;
            PIPER_ASSIGN(const int outcome, tryKey(file));
            if (outcome == SSH_AUTH_PARTIAL) m_used_keys.push_back(file);
            if (isEnd(outcome)) return outcome;
        }
        return SSH_AUTH_DENIED;
    }

    /// All of its keys; with IdentitiesOnly those that the configuration names.
    Result<int> tryAgent() {
        const char* usual = std::getenv("SSH_AUTH_SOCK");
        const std::string agent = !m_host.identity_agent.empty() ? m_host.identity_agent
                                  : usual != nullptr             ? usual
                                                                 : "";
        if (agent.empty() || agent == "none") return SSH_AUTH_DENIED;
        std::unique_ptr<AgentFilter> filter;
        if (m_host.identities_only) {
            std::set<std::string> keys;
            for (const std::string& file : m_host.identity_files)
                if (std::string key = publicKey(file); !key.empty()) keys.insert(std::move(key));
            if (keys.empty()) return SSH_AUTH_DENIED;
            PIPER_ASSIGN(filter, AgentFilter::open(agent, std::move(keys)));
            ssh_options_set(m_session, SSH_OPTIONS_IDENTITY_AGENT, filter->socket().c_str());
        }
        m_tried.emplace_back(filter ? "the agent's keys that IdentityFile names"
                                    : "the agent's keys");
        return ssh_userauth_agent(m_session, nullptr);
    }

    /// In base64, of the file itself or the one beside it; empty when neither says.
    static std::string publicKey(const std::string& file) {
        for (const std::string& name : {file, file + ".pub"}) {
            ssh_key raw = nullptr;
            if (ssh_pki_import_pubkey_file(name.c_str(), &raw) != SSH_OK) continue;
            const SshKey key(raw);
            char* text = nullptr;
            if (ssh_pki_export_pubkey_base64(raw, &text) != SSH_OK) continue;
            const std::string out = text;
            ssh_string_free_char(text);
            return out;
        }
        return {};
    }

    /// libssh takes the public half of a private key, too, which begins with "-----BEGIN".
    static bool isPublicKey(const std::string& file) {
        std::ifstream in(file);
        std::string line;
        return std::getline(in, line) && !line.starts_with("-----") && !publicKey(file).empty();
    }

    Result<int> tryKey(const std::string& file) {
        struct stat info {};
        if (::stat(file.c_str(), &info) != 0) {
            m_tried.push_back("key " + file + " (no such file)");
            return SSH_AUTH_DENIED;
        }
        if (isPublicKey(file)) {
            m_tried.push_back("key " + file + " (a public key, which only an agent can use)");
            return SSH_AUTH_DENIED;
        }
        if ((info.st_mode & 077U) != 0) {
            m_tried.push_back(
                fmt::format("key {} (not used: others may read it, mode {:04o}; "
                            "chmod 600 it)",
                            file, info.st_mode & 0777U));
            return SSH_AUTH_DENIED;
        }
        m_tried.push_back("key " + file);
        // Offered first without its secret: a passphrase is asked for only when it is of use.
        ssh_key raw = nullptr;
        const std::string public_file = file + ".pub";
        if (ssh_pki_import_pubkey_file(public_file.c_str(), &raw) == SSH_OK ||
            ssh_pki_import_pubkey_file(file.c_str(), &raw) == SSH_OK) {
            const SshKey public_key(raw);
            const int offered = ssh_userauth_try_publickey(m_session, nullptr, raw);
            if (offered == SSH_AUTH_ERROR) return offered;
            if (offered != SSH_AUTH_SUCCESS) return SSH_AUTH_DENIED;
        }
        PIPER_ASSIGN(const SshKey key, unlock(file));
        if (key == nullptr) return SSH_AUTH_DENIED;
        return ssh_userauth_publickey(m_session, nullptr, key.get());
    }

    /// The private key; null when it cannot be read, with the reason in m_tried.
    Result<SshKey> unlock(const std::string& file) {
        ssh_key raw = nullptr;
        if (ssh_pki_import_privkey_file(file.c_str(), "", nullptr, nullptr, &raw) == SSH_OK)
            return SshKey(raw);
        if (m_prompter == nullptr) {
            m_tried.back() += " (has a passphrase, and nobody can be asked)";
            return SshKey();
        }
        for (int i = 0; i < kMostPassphrases; ++i) {
            SshQuestions ask;
            ask.hop = m_host.address();
            ask.title = i == 0 ? "Passphrase of a key" : "That was not it. Passphrase of a key";
            ask.questions = {{"Passphrase of " + file, false}};
            PIPER_ASSIGN(std::vector<std::string> answers, this->ask(ask));
            const int read = ssh_pki_import_privkey_file(file.c_str(), answers[0].c_str(), nullptr,
                                                         nullptr, &raw);
            wipe(answers[0]);
            if (read == SSH_OK) return SshKey(raw);
        }
        m_tried.back() += fmt::format(" (no passphrase of {} opened it)", kMostPassphrases);
        return SshKey();
    }

    Result<int> tryInteractive() {
        if (m_prompter == nullptr) {
            m_tried.emplace_back("keyboard-interactive (nobody can be asked)");
            return SSH_AUTH_DENIED;
        }
        m_tried.emplace_back("keyboard-interactive");
        int outcome = ssh_userauth_kbdint(m_session, nullptr, nullptr);
        for (int round = 0; outcome == SSH_AUTH_INFO; ++round) {
            if (round == kMostQuestionRounds)
                return fail(ErrorCode::External, "{} goes on asking after {} rounds of questions",
                            m_host.address(), round);
            PIPER_TRY(answerRound());
            outcome = ssh_userauth_kbdint(m_session, nullptr, nullptr);
        }
        return outcome;
    }

    Status answerRound() {
        SshQuestions ask;
        ask.hop = m_host.address();
        ask.title = shown(ssh_userauth_kbdint_getname(m_session));
        ask.instruction = shown(ssh_userauth_kbdint_getinstruction(m_session));
        const int count = ssh_userauth_kbdint_getnprompts(m_session);
        for (int i = 0; i < count; ++i) {
            char echo = 0;
            const char* text =
                ssh_userauth_kbdint_getprompt(m_session, static_cast<unsigned>(i), &echo);
            ask.questions.push_back({shown(text), echo != 0});
        }
        if (count == 0) return {};
        PIPER_ASSIGN(std::vector<std::string> answers, this->ask(ask));
        for (int i = 0; i < count; ++i) {
            std::string& answer = answers[static_cast<std::size_t>(i)];
            ssh_userauth_kbdint_setanswer(m_session, static_cast<unsigned>(i), answer.c_str());
            wipe(answer);
        }
        return {};
    }

    Result<int> tryPassword() {
        if (m_prompter == nullptr) {
            m_tried.emplace_back("password (nobody can be asked)");
            return SSH_AUTH_DENIED;
        }
        m_tried.emplace_back("password");
        SshQuestions ask;
        ask.hop = m_host.address();
        ask.title = "Password";
        ask.questions = {{"Password of " + m_host.user + " on " + m_host.host_name, false}};
        PIPER_ASSIGN(std::vector<std::string> answers, this->ask(ask));
        const int outcome = ssh_userauth_password(m_session, nullptr, answers[0].c_str());
        wipe(answers[0]);
        return outcome;
    }

    Result<std::vector<std::string>> ask(const SshQuestions& questions) {
        auto answers = m_prompter->answer(questions);
        if (answers && answers->size() == questions.questions.size()) return std::move(*answers);
        return fail(ErrorCode::Cancelled, "log-in to {} was given up at '{}'", m_host.address(),
                    questions.questions.front().text);
    }

    static std::string shown(const char* text) {
        return text == nullptr ? std::string() : displayText(text);
    }

    [[nodiscard]] Error lost() const {
        return fail(ErrorCode::External, "{} ended the connection during log-in: {}",
                    m_host.address(), sshErrorText(m_session));
    }

    [[nodiscard]] Error refused(int methods) const {
        std::string takes;
        const std::pair<int, const char*> names[] = {
            {SSH_AUTH_METHOD_PUBLICKEY, "publickey"},
            {SSH_AUTH_METHOD_INTERACTIVE, "keyboard-interactive"},
            {SSH_AUTH_METHOD_PASSWORD, "password"},
            {SSH_AUTH_METHOD_GSSAPI_MIC, "gssapi-with-mic (not done here)"},
            {SSH_AUTH_METHOD_HOSTBASED, "hostbased (not done here)"}};
        for (const auto& [bit, name] : names)
            if ((methods & bit) != 0) takes += (takes.empty() ? "" : ", ") + std::string(name);
        std::string tried;
        for (const std::string& t : m_tried) tried += (tried.empty() ? "" : ", ") + t;
        Error error = fail(ErrorCode::External, "{} refused to log {} in; it takes {}; tried {}",
                           m_host.address(), m_host.user, takes.empty() ? "nothing named" : takes,
                           tried.empty() ? "nothing" : tried);
        error.hint =
            "name the key (IdentityFile) and the user in ~/.ssh/config, or add the key to "
            "the agent (ssh-add)";
        return error;
    }

    ssh_session m_session;
    const SshHostConfig& m_host;
    SshPrompter* m_prompter;
    std::vector<std::string> m_tried;
    std::vector<std::string> m_used_keys;  ///< accepted as one factor; another is wanted
    bool m_agent_used = false;
};

}  // namespace

Status authenticate(ssh_session session, const SshHostConfig& host, SshPrompter* prompter) {
    return Login(session, host, prompter).run();
}

}  // namespace piper
