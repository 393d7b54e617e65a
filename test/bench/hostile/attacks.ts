/** The names of the attacks, in the arguments and output of the benches. */
export const ATTACKS = [
  "bodies without a credential",
  "bodies at the sign-in",
  "session descriptions",
  "floods of frames",
  "data to everybody",
  "webhook endpoints",
  "refresh races",
  "the reference's viewer",
  "long threads",
  "attachments",
  "sentences in a character",
  "connections by telemetry",
  "guesses",
  "minted joins",
  "replays and revocations",
  "readers who never read",
  "idle connections",
  "SCTP and AV1 of a participant",
  "LiveKit messages",
  "framing over TLS",
] as const;

export type Attack = (typeof ATTACKS)[number];
