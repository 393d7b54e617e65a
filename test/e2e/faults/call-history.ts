/** What a receiver of webhooks has to find in the events of calls, whatever happened to the server. */
export type CallEvent = { id: string; type: string; data: Record<string, unknown> };

/** One line for everything that is wrong; `events` in the order in which they came for the first time. */
export function faultsOf(events: readonly CallEvent[]): string[] {
  const byCall = Map.groupBy(
    events.filter(({ type }) => type.startsWith("call.")),
    ({ data }) => String(data.callId),
  );
  return [...byCall].flatMap(([callId, told]) => faultsOfCall(told).map((fault) => `${callId}: ${fault}`));
}

function faultsOfCall(told: readonly CallEvent[]): string[] {
  const faults: string[] = [];
  const times = (type: string) => told.filter((event) => event.type === type).length;
  if (times("call.started") !== 1) faults.push(`${times("call.started")} starts`);
  if (times("call.ended") !== 1) faults.push(`${times("call.ended")} ends`);
  if (told[0]?.type !== "call.started") faults.push(`begins with ${told[0]?.type}`);
  if (told.at(-1)?.type !== "call.ended") faults.push(`ends with ${told.at(-1)?.type}`);
  if (times("call.participant_joined") === 0) faults.push("nobody was in it");
  const present = new Set<string>();
  let most = 0;
  const participants = new Set<string>();
  for (const { type, data } of told) {
    const connection = `${data.identity} ${data.connectionId}`;
    if (type === "call.participant_joined") {
      if (present.has(connection)) faults.push(`${connection} joined twice`);
      present.add(connection);
      participants.add(String(data.identity));
      most = Math.max(most, present.size);
    } else if (type === "call.participant_left" && !present.delete(connection)) {
      faults.push(`${connection} left without having joined`);
    }
  }
  const ended = told.find(({ type }) => type === "call.ended")?.data ?? {};
  if (ended.participantCount !== participants.size)
    faults.push(`${participants.size} were in it, and ${ended.participantCount} are reported`);
  if (Number(ended.peakParticipants) < 1 || Number(ended.peakParticipants) > most)
    faults.push(`a peak of ${ended.peakParticipants}, and ${most} were there`);
  if (Date.parse(String(ended.endedAt)) < Date.parse(String(ended.startedAt))) faults.push("ended before it began");
  return faults;
}
