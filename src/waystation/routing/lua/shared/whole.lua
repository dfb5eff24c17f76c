--- A number as the digits it has; plain `tostring` would round a large one.
local function whole(number)
  return string.format('%.0f', number)
end
