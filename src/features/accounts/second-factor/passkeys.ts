import type {
  AuthenticationResponseJSON,
  AuthenticatorTransport,
  RegistrationResponseJSON,
} from "@simplewebauthn/server";
import { ApiError } from "../../../protocol/errors.ts";
import type { UserRow } from "../user.store.ts";
import type { PasskeyRow } from "./second-factor.store.ts";

/** The site that passkeys belong to: the server's host name and origin as the browser sees them. */
export type Site = { rpId: string; origin: string };

export const siteOf = (publicUrl: string): Site => {
  const { hostname, origin } = new URL(publicUrl);
  return { rpId: hostname, origin };
};

/** Whether this server issued the challenge for this purpose; each challenge can be answered once. */
type TakeChallenge = (challenge: string) => Promise<boolean>;

/** Most servers never see a passkey, so the large module is loaded for the first passkey. */
const library = () => import("./webauthn.ts");

const transportsOf = ({ transports }: PasskeyRow) => transports as AuthenticatorTransport[];
const describe = (row: PasskeyRow) => ({ id: row.id, transports: transportsOf(row) });

export async function registrationOptions({ rpId }: Site, user: UserRow, known: readonly PasskeyRow[]) {
  const { generateRegistrationOptions } = await library();
  return generateRegistrationOptions({
    rpName: "Stoa",
    rpID: rpId,
    userID: new TextEncoder().encode(user.id),
    userName: user.email,
    userDisplayName: user.name ?? user.email,
    attestationType: "none",
    excludeCredentials: known.map(describe),
    authenticatorSelection: { residentKey: "required", userVerification: "required" },
  });
}

export async function verifyRegistration(site: Site, response: unknown, take: TakeChallenge) {
  const { verifyRegistrationResponse } = await library();
  const { registrationInfo } = await verifyRegistrationResponse({
    response: response as RegistrationResponseJSON,
    expectedChallenge: take,
    expectedOrigin: site.origin,
    expectedRPID: site.rpId,
    requireUserVerification: true,
  }).catch(refuse);
  if (!registrationInfo) throw new ApiError("SVC_SECOND_FACTOR_INVALID");
  const { id, publicKey, counter, transports = [] } = registrationInfo.credential;
  return { id, publicKey: Buffer.from(publicKey).toString("base64url"), counter, transports: [...transports] };
}

/** Without `known`, the options are for a sign-in: the browser offers every passkey that it has for the site. */
export async function authenticationOptions({ rpId }: Site, known: readonly PasskeyRow[]) {
  const { generateAuthenticationOptions } = await library();
  return generateAuthenticationOptions({
    rpID: rpId,
    userVerification: "required",
    ...(known.length > 0 && { allowCredentials: known.map(describe) }),
  });
}

/** Returns the new counter. */
export async function verifyAuthentication(
  site: Site,
  row: PasskeyRow,
  response: unknown,
  take: TakeChallenge,
): Promise<number> {
  const { verifyAuthenticationResponse } = await library();
  const { verified, authenticationInfo } = await verifyAuthenticationResponse({
    response: response as AuthenticationResponseJSON,
    expectedChallenge: take,
    expectedOrigin: site.origin,
    expectedRPID: site.rpId,
    requireUserVerification: true,
    credential: {
      id: row.id,
      publicKey: new Uint8Array(Buffer.from(row.publicKey, "base64url")),
      counter: row.counter,
      transports: transportsOf(row),
    },
  }).catch(refuse);
  if (!verified) throw new ApiError("SVC_SECOND_FACTOR_INVALID");
  return authenticationInfo.newCounter;
}

/** The library throws for every response that it cannot parse or that does not match. */
function refuse(): never {
  throw new ApiError("SVC_SECOND_FACTOR_INVALID");
}
