import { startRegistration } from "@simplewebauthn/browser";
import { useState } from "preact/hooks";
import { encode } from "uqr";
import { api, request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { Field } from "../../parts/field.tsx";
import { FormEnd, FormProblem, TextInput, useSubmit } from "../../parts/form.tsx";
import { browserName } from "../../parts/frame/browser.tsx";
import { PasswordField } from "../../parts/frame/credentials.tsx";
import { Loaded } from "../../parts/states.tsx";
import { Ago } from "../../parts/time.tsx";
import { toastDone } from "../../parts/toast.tsx";
import { accessToken } from "../../session.ts";

type Codes = { recoveryCodes: string[] | null; session?: { accessToken: string } | null };
type TotpSetup = { secret: string; uri: string };

/** Passkeys, one-time codes and recovery codes. `onFirst` is called when the recovery codes of the first were kept. */
export function SecondFactors({ onFirst = () => {} }: { onFirst?: () => void }) {
  const factors = usePolling(() => request(api.v1.auth.factors.get()), [], 0);
  const [password, setPassword] = useState("");
  const [codes, setCodes] = useState<string[] | null>(null);
  const [setup, setSetup] = useState<TotpSetup | null>(null);
  const confirmed = { password };
  const show = ({ recoveryCodes, session }: Codes) => {
    if (session) accessToken.value = session.accessToken;
    setPassword("");
    setSetup(null);
    setCodes(recoveryCodes);
    factors.reload();
  };
  const kept = () => {
    setCodes(null);
    onFirst();
  };
  const addPasskey = useSubmit(async () => {
    const { options } = await request(api.v1.auth.factors.passkeys.start.post(confirmed));
    const response = await startRegistration({ optionsJSON: options as never });
    const name = browserName(navigator.userAgent).slice(0, 80);
    show(await request(api.v1.auth.factors.passkeys.post({ name, response: { ...response } })));
    toastDone("The passkey was added.");
  });
  const startCodes = useSubmit(async () => setSetup(await request(api.v1.auth.factors.totp.post(confirmed))));
  const newCodes = useSubmit(async () => show(await request(api.v1.auth.factors["recovery-codes"].post(confirmed))));
  const removeTotp = useSubmit(async () => {
    await request(api.v1.auth.factors.totp.remove.post(confirmed));
    show({ recoveryCodes: null });
    toastDone("One-time codes were removed.");
  });
  const forms = [addPasskey, startCodes, newCodes, removeTotp];
  const failed = forms.find((form) => form.failure !== null) ?? addPasskey;
  const busy = forms.some((form) => form.busy);

  if (codes) return <RecoveryCodes codes={codes} onKept={kept} />;
  if (setup) return <ConfirmTotp setup={setup} onConfirmed={show} />;
  return (
    <div class="card stack narrow">
      <h2>Second factor</h2>
      <Loaded live={factors}>
        {({ passkeys, totp, recoveryCodesLeft }) => (
          <>
            <p class="quiet">
              A passkey signs you in by itself. With an authenticator app, you enter a code after your password.
            </p>
            {passkeys.map((passkey) => (
              <Passkey
                key={passkey.id}
                {...passkey}
                password={password}
                onRemoved={() => show({ recoveryCodes: null })}
              />
            ))}
            {(totp || passkeys.length > 0) && (
              <p>
                {totp ? "Codes of an authenticator app are set up. " : ""}
                {recoveryCodesLeft} recovery codes are left.
              </p>
            )}
            <PasswordField form={failed} label="Your password" value={password} onValue={setPassword} />
            <FormProblem form={failed} />
            <div class="actions">
              <button type="button" class="button primary" disabled={busy} onClick={addPasskey.onSubmit}>
                Add a passkey
              </button>
              <button type="button" class="button" disabled={busy} onClick={(totp ? removeTotp : startCodes).onSubmit}>
                {totp ? "Remove the authenticator app" : "Set up an authenticator app"}
              </button>
              {(totp || passkeys.length > 0) && (
                <button type="button" class="button" disabled={busy} onClick={newCodes.onSubmit}>
                  New recovery codes
                </button>
              )}
            </div>
          </>
        )}
      </Loaded>
    </div>
  );
}

type PasskeyProps = {
  id: string;
  name: string;
  createdAt: string;
  lastUsedAt: string | null;
  password: string;
  onRemoved: () => void;
};

function Passkey({ id, name, createdAt, lastUsedAt, password, onRemoved }: PasskeyProps) {
  const remove = useSubmit(async () => {
    await request(api.v1.auth.factors.passkeys({ passkeyId: id }).remove.post({ password }));
    onRemoved();
    toastDone("The passkey was removed.");
  });
  return (
    <form class="row" onSubmit={remove.onSubmit}>
      <span>
        Passkey of {name}, added <Ago at={createdAt} />
        {lastUsedAt !== null && (
          <>
            , last used <Ago at={lastUsedAt} />
          </>
        )}
      </span>
      <button type="submit" class="button danger" disabled={remove.busy}>
        Remove
      </button>
      <FormProblem form={remove} />
    </form>
  );
}

function QrCode({ text }: { text: string }) {
  const { data, size } = encode(text, { border: 4 });
  const dark = data.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : "")));
  return (
    <svg class="qr" viewBox={`0 0 ${size} ${size}`} role="img" aria-label="QR code">
      <path d={dark.join("")} />
    </svg>
  );
}

function ConfirmTotp({ setup, onConfirmed }: { setup: TotpSetup; onConfirmed: (codes: Codes) => void }) {
  const [code, setCode] = useState("");
  const form = useSubmit(async () => onConfirmed(await request(api.v1.auth.factors.totp.confirm.post({ code }))));
  return (
    <form class="card stack" onSubmit={form.onSubmit}>
      <h2>Authenticator app</h2>
      <p>
        Scan this code with your authenticator app, open <a href={setup.uri}>this link</a> on the device that has it, or
        enter the key there:
      </p>
      <QrCode text={setup.uri} />
      <code>{setup.secret.replaceAll(/(.{4})/g, "$1 ").trim()}</code>
      <Field label="Code" hint="The six digits that the app shows now." error={form.problem("code")}>
        <TextInput autocomplete="one-time-code" required maxLength={32} value={code} onValue={setCode} />
      </Field>
      <FormEnd form={form}>Confirm</FormEnd>
    </form>
  );
}

function RecoveryCodes({ codes, onKept }: { codes: string[]; onKept: () => void }) {
  return (
    <div class="card stack narrow">
      <h2>Recovery codes</h2>
      <p>
        Keep them in a safe place: each signs you in once if you lose your passkey or your phone. They are not shown
        again.
      </p>
      <pre class="mono">{codes.join("\n")}</pre>
      <div class="actions">
        <button type="button" class="button primary" onClick={onKept}>
          I have kept them
        </button>
      </div>
    </div>
  );
}
