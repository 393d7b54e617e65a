/** The chapters of the reference: what one builds with first, what one administers after it. */
const TAGS: Record<string, string> = {
  rooms: "Create rooms, see who is in them, and mint the tokens that let people in.",
  "rooms: moderation": "Act on whoever is in a room now: remove, mute, change what they may do, send data.",
  rtc: "The socket of the browser SDK, and WHIP and WHEP for encoders and players.",
  chat: "Conversations with members, messages, reactions, read state, attachments and search, and the chat socket.",
  "chat: moderation": "Reports of messages and what is done about them, blocked users, and words that are not wanted.",
  push: "Web Push: browsers that are woken for messages, mentions and rings, and what mutes them.",
  "live streams":
    "A live stream is a room and a conversation with hosts and viewers, and a life: CREATED, LIVE, ENDED.",
  webhooks: "Endpoints that are told what happens, and their deliveries.",
  calls: "When people were in a room together, and how it was for each of them.",
  recordings: "Rooms written down: one file for each track, as it was sent, and what happened when.",
  people: "What is held about one of your users: read it, export it, erase it.",
  observability: "Connections and why they failed, in single cases and in numbers.",
  project: "The project that an API key belongs to.",
  "rooms: dashboard": "Rooms by session, for the dashboard.",
  "chat: dashboard": "Chat by session, for the dashboard: who and when, never what.",
  "live streams: dashboard": "Live streams by session, for the dashboard.",
  "calls: dashboard": "Calls by session, for the dashboard.",
  "recordings: dashboard": "Recordings by session, for the dashboard.",
  "people: dashboard": "The same by session, for owners and admins.",
  "observability: dashboard": "Observability by session, for the dashboard.",
  usage: "Participant minutes, and what is left of the allowance.",
  projects: "Projects, and the browser origins that may use them.",
  members: "Who works on a project, and in which role.",
  "API keys": "Keys of a project; a key is shown once, when it is made.",
  audit: "What was done to a project, by whom, and from where.",
  auth: "Accounts of the dashboard and their sessions. The people who use your application have none.",
  fleet: "Media servers, for operators.",
  "fleet: nodes": "What media nodes call.",
  health: "For load balancers and monitoring.",
};

const ORDER = Object.keys(TAGS);

/** In the order of the table; a tag that is not in it comes before the dashboard's and has no description yet. */
export function describeTags(used: Iterable<string>): { name: string; description?: string }[] {
  const rank = (tag: string) => (ORDER.includes(tag) ? ORDER.indexOf(tag) : ORDER.indexOf("rooms: dashboard") - 0.5);
  return [...new Set(used)]
    .sort((a, b) => rank(a) - rank(b))
    .map((name) => ({ name, ...(TAGS[name] === undefined ? {} : { description: TAGS[name] }) }));
}
