import { startAuthentication } from "@simplewebauthn/browser";
import { useState } from "preact/hooks";
import { api, request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { Field } from "../../parts/field.tsx";
import { FormProblem, SubmitButton, TextInput, useSubmit } from "../../parts/form.tsx";
import { SignedOutPage } from "../../parts/frame/signed-out-page.tsx";
import { Loaded } from "../../parts/states.tsx";
import { adoptSession, missingFactor, signOut } from "../../session.ts";
import { SecondFactors } from "./second-factors.tsx";

/** The second step of a sign-in. */
export function VerifySecondFactor() {
  const methods = usePolling(() => request(api.v1.auth["second-factor"].methods.get()), [], 0);
  return (
    <SignedOutPage title="Confirm that it is you">
      <Loaded live={methods}>
        {({ passkey }) => (
          <>
            {passkey && <PasskeyStep />}
            <CodeStep />
          </>
        )}
      </Loaded>
      <BackToSignIn />
    </SignedOutPage>
  );
}

function PasskeyStep() {
  const form = useSubmit(async () => {
    const { options } = await request(api.v1.auth["second-factor"].passkey.start.post());
    const response = await startAuthentication({ optionsJSON: options as never });
    adoptSession(await request(api.v1.auth["second-factor"].passkey.post({ response: { ...response } })));
  });
  return (
    <form class="stack" onSubmit={form.onSubmit}>
      <FormProblem form={form} />
      <SubmitButton form={form}>Use a passkey</SubmitButton>
    </form>
  );
}

function CodeStep() {
  const [code, setCode] = useState("");
  const form = useSubmit(async () => {
    adoptSession(await request(api.v1.auth["second-factor"].code.post({ code })));
  });
  return (
    <form class="stack" onSubmit={form.onSubmit}>
      <Field
        label="Code"
        hint="From your authenticator app, or one of your recovery codes."
        error={form.problem("code")}
      >
        <TextInput autocomplete="one-time-code" required maxLength={32} value={code} onValue={setCode} />
      </Field>
      <FormProblem form={form} />
      <button type="submit" class="button" disabled={form.busy}>
        Confirm
      </button>
    </form>
  );
}

/** For an account without a second factor on a server that requires one. */
export function SetUpSecondFactor() {
  return (
    <SignedOutPage title="Protect your account">
      <p>This server requires a second factor. Add a passkey, or set up an authenticator app, to go on.</p>
      <SecondFactors onFirst={() => (missingFactor.value = null)} />
      <BackToSignIn />
    </SignedOutPage>
  );
}

function BackToSignIn() {
  return (
    <p class="small">
      <button type="button" class="link" onClick={signOut}>
        Sign out
      </button>
    </p>
  );
}
