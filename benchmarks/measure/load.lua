-- load.lua: what wrk asks in load.sh: a row of 64 floats of 1, whose sum is 64.
local json = os.getenv("LOAD_FORM") == "json"
wrk.method = "POST"
if os.getenv("LOAD_TOKEN") ~= "" then
    wrk.headers["Authorization"] = "Bearer " .. os.getenv("LOAD_TOKEN")
end
if json then
    wrk.headers["Content-Type"] = "application/json"
    wrk.body = '{"instances": [[' .. string.rep("1.25, ", 63) .. "1.25]]}"
else
    wrk.headers["Content-Type"] = "application/octet-stream"
    wrk.headers["X-Troupe-Dtype"] = "float32"
    wrk.headers["X-Troupe-Shape"] = "1,64"
    wrk.body = string.rep("\0\0\128\63", 64)
end

function done(summary, latency, requests)
    local errors = summary.errors
    local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
    if failed > 0 or summary.requests == 0 then
        io.write(string.format("%d of %d requests failed\n", failed, summary.requests))
        return
    end
    local p50, p99 = latency:percentile(50), latency:percentile(99)
    local value = summary.requests / summary.duration * 1e6
    if os.getenv("LOAD_VALUE") == "p50" then
        value = p50
    end
    io.write(string.format("%s %.3f %.3f %.3f %.3f\n", os.getenv("LOAD_ROW"), value, p50, p99,
        latency:percentile(99.9)))
end
