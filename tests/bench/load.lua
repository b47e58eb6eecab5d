-- The load of the benches: creates plants, each under an id of its own, and
-- repeats a share of them.
--
--   wrk -t1 -c64 -d5s -s load.lua URL -- ORDER FROM TOKEN REPEATS OF PRELOADED
--
-- ORDER: rising or random ids. FROM: the number to count from; runs that count
-- from numbers far enough apart never send the same id. REPEATS: percentage of
-- creates that repeat one of the last few thousand (OF recent), or one of the
-- PRELOADED (old).

local ffi = require("ffi")

-- Creates that may still be in progress are not repeated.
local IN_PROGRESS = 1000
local RECENT = 4000

function init(args)
  order, token, of = args[1], args[3], args[5]
  from, repeats, preloaded = tonumber(args[2]), tonumber(args[4]),
    tonumber(args[6])
  assert(order == "rising" or order == "random", "rising or random?")
  count = from
  head = "POST /plants HTTP/1.1\r\n" ..
    "Host: " .. wrk.host .. ":" .. wrk.port .. "\r\n" ..
    "Authorization: Bearer " .. token .. "\r\n" ..
    "Content-Type: application/json\r\n" ..
    "Content-Length: "
end

-- The finalizer of SplitMix64: a bijection that spreads a counter over int64.
local function spread(number)
  local z = ffi.cast("uint64_t", number) * 0x9e3779b97f4a7c15ULL
  z = bit.bxor(z, bit.rshift(z, 30)) * 0xbf58476d1ce4e5b9ULL
  z = bit.bxor(z, bit.rshift(z, 27)) * 0x94d049bb133111ebULL
  z = bit.bxor(z, bit.rshift(z, 31))
  -- LuaJIT writes an int64 as 123LL.
  return tostring(ffi.cast("int64_t", z)):sub(1, -3)
end

-- The number of an earlier create, or nil if there is none yet.
local function earlier()
  if of == "old" then return math.random(0, preloaded - 1) end
  if count - from < IN_PROGRESS + RECENT then return nil end
  return count - IN_PROGRESS - math.random(0, RECENT - 1)
end

function request()
  local number = nil
  if math.random() * 100 < repeats then number = earlier() end
  if number == nil then
    count = count + 1
    number = count
  end
  local id = order == "random" and spread(number) or
    string.format("%.0f", number)
  local body = '{"id":' .. id ..
    ',"name":"Monstera deliciosa","tag":"climber"}'
  return head .. #body .. "\r\n\r\n" .. body
end

-- wrk counts replies of status 400 and above itself. A response() function
-- would see every status, but slow wrk down until wrk is what is measured.
function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    'result {"rate":%.1f,"p50":%d,"p99":%d,"refused":%d,"broken":%d}\n',
    summary.requests / summary.duration * 1e6,
    latency:percentile(50),
    latency:percentile(99),
    errors.status,
    errors.connect + errors.read + errors.write + errors.timeout
  ))
end
