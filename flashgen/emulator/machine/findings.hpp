// The findings of one host thread: the first of each kind, instruction and counterpart, and how often.
#pragma once
#include <map>
#include <tuple>

#include "abi.hpp"

namespace emu {

class FindingLog {
public:
    // Of equal findings the one in the first CTA is kept, so that the log does not depend on which host
    // thread ran what.
    void add(const Finding& finding) {
        const auto [at, fresh] = found_.try_emplace(key(finding), finding);
        if (fresh) return;
        const uint64_t count = at->second.count + finding.count;
        if (finding.cta < at->second.cta) at->second = finding;
        at->second.count = count;
    }

    void merge(const FindingLog& other) {
        for (const auto& [k, finding] : other.found_) add(finding);
    }

    void write(LaunchDesc& launch) const {
        for (const auto& [k, finding] : found_) {
            if (launch.num_findings < launch.max_findings)
                launch.findings[launch.num_findings++] = finding;
            else
                ++launch.findings_dropped;
        }
    }

private:
    using Key = std::tuple<uint32_t, uint32_t, uint32_t>;
    static Key key(const Finding& f) { return {f.kind, f.ins, f.other_ins}; }
    std::map<Key, Finding> found_;
};

}  // namespace emu
