// The machine as its C interface sees it.
#pragma once
#include "warp.hpp"

namespace emu {

void run_launch(const Program& program, LaunchDesc& launch);

}  // namespace emu
