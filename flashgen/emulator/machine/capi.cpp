// The C interface: the table of handlers by name, programs, launches.
#include <exception>
#include <iterator>
#include <vector>

#include "handlers.hpp"
#include "machine.hpp"

namespace emu {
namespace {

const std::vector<TableEntry>& handlers() {
    static const std::vector<TableEntry> all = [] {
        std::vector<TableEntry> entries;
        for (const Table& table : {integer_table(), bits_table(), float_table(), rounding_table(), half_table(),
                                   compare_table(), convert_table(), move_table(), memory_table(), atomic_table(),
                                   control_table(), warp_table(), tensor_table(), matrix_load_table(),
                                   async_copy_table(), tensor_bytes_table(), convert_fp8_table()})
            entries.insert(entries.end(), table.entries, table.entries + table.size);
        return entries;
    }();
    return all;
}

// Runs the lanes whose predicate holds, if there are any.
const Ins* guarded(const Ins* i, Warp& w) {
    const uint32_t p = predicate(w, i->guard & ~kNegated);
    w.exec = w.mask & (i->guard & kNegated ? ~p : p);
    const Ins* next = w.exec ? i->inner(i, w) : i + 1;
    w.exec = w.mask;
    return next;
}

std::vector<Ins> link(const ProgramDesc& desc, const Program& program, bool checked) {
    std::vector<Ins> code(desc.num_ins);
    for (uint32_t k = 0; k < desc.num_ins; ++k) {
        const EncodedIns& from = desc.ins[k];
        const TableEntry& entry = handlers().at(from.handler);
        Ins& to = code[k];
        to.inner = checked && entry.checked ? entry.checked : entry.fast;
        to.run = from.guard == kNoGuard || from.own_guard ? to.inner : guarded;
        to.op = program.ops.data() + from.op;
        to.imm = from.imm;
        to.guard = from.guard;
        to.index = k;
        std::memcpy(to.aux, from.aux, kAux);
    }
    return code;
}

Program* make_program(const ProgramDesc& desc) {
    auto* program = new Program;
    program->ops.assign(desc.ops, desc.ops + desc.num_ops);
    program->image.assign(desc.image, desc.image + desc.image_bytes);
    program->constants.assign(desc.constants, desc.constants + desc.constant_bytes);
    program->specials.assign(desc.specials, desc.specials + desc.num_specials);
    program->frame_bytes = desc.frame_bytes;
    program->local_bytes = desc.local_bytes;
    program->cell_shift = desc.cell_shift;
    program->partial_barriers = desc.partial_barriers != 0;
    program->fast = link(desc, *program, false);
    program->checked = link(desc, *program, true);
    return program;
}

}  // namespace
}  // namespace emu

#define EMU_API extern "C" __attribute__((visibility("default")))

EMU_API uint32_t emu_abi(uint32_t* sizes) {
    const uint32_t all[] = {sizeof(emu::EncodedIns), sizeof(emu::SpecialSlot), sizeof(emu::ProgramDesc),
                            sizeof(emu::BufferDesc), sizeof(emu::AccessCounts), sizeof(emu::InsCounts),
                            sizeof(emu::Finding), sizeof(emu::GlobalCell), sizeof(emu::LaunchDesc)};
    for (size_t k = 0; k < std::size(all); ++k) sizes[k] = all[k];
    return emu::kAbiVersion;
}
EMU_API uint32_t emu_handler_count() { return uint32_t(emu::handlers().size()); }
EMU_API const char* emu_handler_name(uint32_t k) { return emu::handlers().at(k).name; }

EMU_API void* emu_program_create(const emu::ProgramDesc* desc) {
    try {
        return emu::make_program(*desc);
    } catch (const std::exception&) {
        return nullptr;
    }
}
EMU_API void emu_program_destroy(void* program) { delete static_cast<emu::Program*>(program); }

// 0: it ran (its findings tell how). 1: the host ran out of memory or threads.
EMU_API int emu_launch(const void* program, emu::LaunchDesc* launch) {
    try {
        emu::run_launch(*static_cast<const emu::Program*>(program), *launch);
        return 0;
    } catch (const std::exception&) {
        return 1;
    }
}
