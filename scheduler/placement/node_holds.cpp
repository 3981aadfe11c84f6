// See node_holds.hpp.
#include "scheduler/placement/node_holds.hpp"

#include <algorithm>

namespace rtrain {
namespace {

Amount less(Amount amount, Amount taken) { return amount - std::min(amount, taken); }

Amount device_of(const std::vector<Amount>& gpus, std::size_t device) {
    return device < gpus.size() ? gpus[device] : Amount{};
}

Amount& device_in(std::vector<Amount>& gpus, std::size_t device) {
    if (device >= gpus.size()) gpus.resize(device + 1);
    return gpus[device];
}

// Limits the room to the rest after `seats` are taken from the amounts that are free by then.
void limit(OpenRoom& room, const NodeView& node, const Held& released, const Held& seats) {
    for (const auto& [name, taken] : seats.amounts) {
        const auto free = room.free.find(name);
        if (free == room.free.end()) continue;
        const Amount then = amount_of(node.free, name) + amount_of(released.amounts, name);
        free->second = std::min(free->second, less(then, taken));
        if (free->second.ticks == 0) room.free.erase(free);
    }
    for (std::size_t device = 0; device < std::min(seats.gpus.size(), room.gpus.size()); ++device) {
        const Amount then = node.gpus_free[device] + device_of(released.gpus, device);
        room.gpus[device] = std::min(room.gpus[device], less(then, seats.gpus[device]));
    }
}

bool enough(const NodeView& node, const Held& released, const Held& seats) {
    bool devices = seats.gpus.size() <= node.gpus_free.size();
    for (std::size_t device = 0; devices && device < seats.gpus.size(); ++device)
        devices = seats.gpus[device] <= node.gpus_free[device] + device_of(released.gpus, device);
    return devices && std::all_of(seats.amounts.begin(), seats.amounts.end(), [&](const auto& entry) {
               const auto& [name, taken] = entry;
               return taken <= amount_of(node.free, name) + amount_of(released.amounts, name);
           });
}

// Returns the amounts of attempts on whose end one of the reservations counts.
Held released_for(const NodeHolds& holds, ReservationMask reservations) {
    Held released;
    for (const auto& [mask, held] : holds.released)
        if ((mask & reservations) != 0) add(released, held);
    return released;
}

}  // namespace

ReservationMask NodeHolds::mask() const {
    ReservationMask mask = 0;
    for (const NodeHold& hold : seats) mask |= hold.bit;
    return mask;
}

void NodeHolds::release(ReservationMask of, const Resources& demand, const std::vector<GpuShare>& shares) {
    const auto entry = released.find(of);
    if (entry == released.end()) return;
    subtract(entry->second, demand, shares);
    if (entry->second == Held{}) released.erase(entry);
}

void NodeHolds::expect(ReservationMask of, const Resources& demand, const std::vector<GpuShare>& shares) {
    if (of == 0) return;
    Held held;
    add(held, demand, shares);
    if (held != Held{}) add(released[of], held);
}

void add(Held& into, const Resources& demand, const std::vector<GpuShare>& shares) {
    for (const auto& [name, amount] : demand)
        if (name != gpu_key && amount.ticks != 0) into.amounts[name] = into.amounts[name] + amount;
    for (const GpuShare& share : shares) {
        Amount& device = device_in(into.gpus, share.device);
        device = device + share.amount;
    }
}

void add(Held& into, const Held& what) {
    add(into.amounts, what.amounts);
    for (std::size_t device = 0; device < what.gpus.size(); ++device) {
        Amount& sum = device_in(into.gpus, device);
        sum = sum + what.gpus[device];
    }
}

void subtract(Held& from, const Resources& demand, const std::vector<GpuShare>& shares) {
    for (const auto& [name, amount] : demand) {
        const auto held = from.amounts.find(name);
        if (name == gpu_key || held == from.amounts.end()) continue;
        held->second = less(held->second, amount);
        if (held->second.ticks == 0) from.amounts.erase(held);
    }
    for (const GpuShare& share : shares)
        if (share.device < from.gpus.size()) from.gpus[share.device] = less(from.gpus[share.device], share.amount);
    while (!from.gpus.empty() && from.gpus.back().ticks == 0) from.gpus.pop_back();
}

OpenRoom room_beside(const NodeView& node, const NodeHolds& holds, ReservationMask closed) {
    OpenRoom room{.free = node.free, .gpus = node.gpus_free};
    Held seats;
    ReservationMask begun = 0;
    for (const NodeHold& hold : holds.seats) {
        if ((hold.bit & closed) == 0) continue;
        if (hold.whole) return {.free = {}, .gpus = std::vector<Amount>(node.gpus_free.size())};
        if (begun != 0 && hold.from == unknown_begin) limit(room, node, released_for(holds, hold.bit), hold.seats);
        add(seats, hold.seats);
        begun |= hold.bit;
        limit(room, node, released_for(holds, begun), seats);
    }
    return room;
}

OpenRoom room_behind(const NodeView& node, const NodeHolds& holds, ReservationMask closed) {
    OpenRoom room = room_beside(node, holds, closed);
    Held seats;
    for (const NodeHold& hold : holds.seats)
        if ((hold.bit & closed) != 0 && hold.from == unknown_begin) add(seats, hold.seats);
    limit(room, node, {}, seats);
    return room;
}

bool covered(const NodeView& node, const NodeHolds& holds, ReservationMask bit, ReservationMask others) {
    Held seats;
    ReservationMask begun = 0;
    for (const NodeHold& hold : holds.seats) {
        if ((hold.bit & (others | bit)) == 0) continue;
        add(seats, hold.seats);
        begun |= hold.bit;
        if (hold.bit != bit) continue;
        const bool alone = hold.from != unknown_begin || enough(node, released_for(holds, bit), hold.seats);
        return alone && enough(node, released_for(holds, begun), seats);
    }
    return true;
}

}  // namespace rtrain
