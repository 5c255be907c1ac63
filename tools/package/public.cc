// What the installed library is made of: taking the address of each function of include/hp brings it in.
#include "hp/convert.h"

namespace hp {

// Not static, so that the linker keeps it.
extern const void* const kInstalled[];
const void* const kInstalled[] = {
    reinterpret_cast<const void*>(&ConvertCifar), reinterpret_cast<const void*>(&ConvertMnist),
    reinterpret_cast<const void*>(&ConvertImageSet), reinterpret_cast<const void*>(&ComputeImageMean)};

}  // namespace hp
