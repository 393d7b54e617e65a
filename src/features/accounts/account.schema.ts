import { Type } from "@sinclair/typebox";
import { t } from "elysia";
import { NullableTimestamp, nullable, oneOf, Timestamp, textOf } from "../../kernel/http/schema.ts";

export const Email = t.String({
  // The pattern excludes characters that a mail program parses as a second e-mail address, a name or a comment.
  pattern: `^\\s*[^\\s@<>()[\\]\\\\,;:"]+@[^\\s@<>()[\\]\\\\,;:"]+\\s*$`,
  maxLength: 254,
  description: "An e-mail address of at most 254 characters",
  error: "must be an e-mail address of at most 254 characters",
});
export const Password = textOf(10, 200);
/** A password that is checked, not chosen: an error must not reveal which passwords are possible. */
export const AnyPassword = t.String({ maxLength: 1000 });
export const OneTimeToken = t.String({ maxLength: 128, description: "From the link in the mail" });
export const PersonName = textOf(0, 80);

export const User = t.Object({
  id: t.String(),
  email: t.String(),
  name: nullable(t.String()),
  emailVerified: t.Boolean(),
  isOperator: t.Boolean(),
  createdAt: Timestamp,
});

export const Registration = t.Object({
  open: t.Boolean({ description: "Anyone may make an account now" }),
  firstAccount: t.Boolean({ description: "There is no account yet: the first becomes the operator" }),
  providers: t.Array(t.String(), { description: "Names of the providers that can be signed in with" }),
});

/**
 * `verify`: the session can do nothing until `/v1/auth/second-factor/…` accepts a passkey or a code. `setup`: the
 * server requires a second factor, and the session can only set one up.
 */
const MissingFactor = nullable(oneOf(["verify", "setup"]));

/** The response to a sign-in; the refresh token is in its cookie. */
export const SignedIn = t.Object({
  user: User,
  accessToken: t.String({ description: "Send it as `Authorization: Bearer`" }),
  expiresIn: Type.Integer({ description: "Seconds" }),
  secondFactor: MissingFactor,
});

export const Verified = t.Object({
  ...SignedIn.properties,
  passwordKept: t.Boolean({
    description: "The account still has the password that was chosen when the address was registered",
  }),
});

/** No tokens are included until the e-mail address is verified. */
export const Registered = t.Object({
  user: User,
  accessToken: t.Optional(t.String()),
  expiresIn: t.Optional(Type.Integer()),
  secondFactor: t.Optional(MissingFactor),
});

export const Passkey = t.Object({
  id: t.String(),
  name: t.String(),
  createdAt: Timestamp,
  lastUsedAt: NullableTimestamp,
});

export const SecondFactors = t.Object({
  passkeys: t.Array(Passkey),
  totp: t.Boolean({ description: "One-time codes of an authenticator app are set up" }),
  recoveryCodesLeft: Type.Integer(),
  required: t.Boolean({ description: "The operator requires a second factor" }),
});

export const RecoveryCodes = t.Object({
  recoveryCodes: nullable(
    t.Array(t.String(), { description: "Shown once, with the first factor: each replaces a passkey or a code once" }),
  ),
});

export const FactorAdded = t.Object({
  ...RecoveryCodes.properties,
  session: nullable(
    t.Object(SignedIn.properties, {
      description: "With the first factor, it takes the place of this session, which ends",
    }),
  ),
});

export const Session = t.Object({
  id: t.String(),
  ipAddress: t.String(),
  userAgent: nullable(t.String()),
  current: t.Boolean({ description: "The session of this request" }),
  createdAt: Timestamp,
  refreshedAt: Timestamp,
  expiresAt: Timestamp,
});
