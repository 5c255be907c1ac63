# How sources become objects: in groups, since the headers are most of the work.

# A group is one translation unit, so names in anonymous namespaces have to differ within a library or program.
# Sources with compile options of their own stay alone. Small enough for an edited file to be compiled soon.
set(CMAKE_UNITY_BUILD ${HP_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)
