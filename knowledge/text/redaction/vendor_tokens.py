"""Tokens that begin with a sign of their vendor's own, as the vendors' documentation has them.

The sources, kind by kind, are in `tests/cases/secret_kinds.json`. After a prefix, all characters of the alphabet are
taken: lengths grow.
"""

from __future__ import annotations

from typing import Final

PLATFORMS: Final = (
    r"\bhw_[0-9a-f]{12}_[\w-]{43}",  # our own
    r"dckr_(?:pat|oat)_[\w-]{20,}",  # Docker Hub
    r"do[oprt]_v1_[0-9a-f]{64}",  # DigitalOcean
    r"\bdapi[0-9a-f]{32}",  # Databricks
    r"\bhv[sb]\.[\w-]{24,}",  # HashiCorp Vault
    r"\w{14}\.atlasv1\.[\w=-]{60,}",  # Terraform
    r"\bgl(?:sa|c)_[A-Za-z0-9+/=_]{32,}",  # Grafana
    r"\blin_api_[A-Za-z0-9]{32,}",
    r"\bntn_[A-Za-z0-9]{40,}",  # Notion
    r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",  # Shopify
    r"\b\d{8,10}:AA[\w-]{33}",  # Telegram, not in an address
    r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}",  # Postman
    r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{40,}",  # Doppler
    r"\bsntry[suk]_[\w+/=-]{40,}",  # Sentry
    r"\bNRAK-[A-Z0-9]{27}",  # New Relic
    r"\bsb[ps]_[0-9a-f]{40}",  # Supabase
    r"\bgsk_[A-Za-z0-9]{40,}",  # Groq
    r"\bxai-[A-Za-z0-9]{70,}",
    r"\br8_[A-Za-z0-9]{37}",  # Replicate
    r"\bpplx-[A-Za-z0-9]{40,}",  # Perplexity
    r"\bATATT3[\w=-]{50,}",  # Atlassian
    r"\bfig[dou]_[\w-]{40}",  # Figma
    r"\bpscale_(?:tkn|pw|oauth)_[\w.=-]{32,}",  # PlanetScale
    r"\bpul-[0-9a-f]{40}",  # Pulumi
    r"\brubygems_[0-9a-f]{48}",
    r"\bcio[A-Za-z0-9]{32}\b",  # crates.io
    r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}",
    r"\bkey-[0-9a-f]{32}\b",  # Mailgun
    r"\b[0-9a-f]{32}-us\d{1,2}\b",  # Mailchimp
    r"\bsq0(?:atp|csp)-[\w-]{22,}",  # Square
    r"\bAKCp[A-Za-z0-9]{69}|\bcmVmdGtu[A-Za-z0-9]{56}",  # Artifactory
    r"\bCCIP(?:AT|RJ)_\w{22,}",  # CircleCI
    r"\bbk[ua]a?_[0-9a-f]{40}",  # Buildkite
    r"\bv1\.0-[0-9a-f]{24}-[0-9a-f]{146}",  # Cloudflare, of an origin
    r"\bHRKU-[\w-]{36,}",  # Heroku
    r"\bsk\.eyJ[\w-]{20,}\.[\w-]{20,}",  # Mapbox
    r"\bsq[upa]_[0-9a-f]{40}",  # SonarQube
    r"\blsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}",  # LangSmith
    r"\btvly-[A-Za-z0-9-]{32,}",  # Tavily
    r"\bfc-[0-9a-f]{32}\b",  # Firecrawl
    r"\be2b_[0-9a-f]{40}",
    r"\bpcsk_\w{50,}",  # Pinecone
    r"\b1//0[\w-]{40,}",  # Google, to refresh
    r"\bAAAA[\w-]{7}:APA91b[\w-]{100,}",  # Firebase
    r"\bsl\.[\w-]{120,}",  # Dropbox
    r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}",  # Airtable
    r"\bCLOJARS_[a-z0-9]{60}",
    r"\boy2[a-z0-9]{43}\b",  # NuGet
    r"\bCFPAT-[\w-]{43}",  # Contentful
    r"\bdt0[a-z]\d{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}",  # Dynatrace
    r"\bEZ[AT]K[A-Za-z0-9]{54}",  # EasyPost
    r"\bfo1_[\w-]{43}|\bfm[12][ar]?_[A-Za-z0-9+/=]{100,}",  # Fly.io
    r"\bico-[A-Za-z0-9]{32}\b",  # Infracost
    r"\b(?:sdk|mob)-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b",  # LaunchDarkly
    r"\bnf[pcou]_[A-Za-z0-9]{36,}",  # Netlify
    r"\bph[xs]_[A-Za-z0-9]{40,}",  # PostHog
    r"\bpn[ub]_[a-z0-9]{36}\b",  # Prefect
    r"\brdme_[a-z0-9]{70}",  # ReadMe
    r"\btk-us-[\w-]{48}",  # Scalingo
    r"\bxkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}",  # Brevo
    r"\bsgp_(?:[0-9a-f]{16}_|local_)?[0-9a-f]{40}",  # Sourcegraph
    r"\btskey-[a-z]{3,8}-[A-Za-z0-9]{8,}-[A-Za-z0-9]{16,}",  # Tailscale
    r"\btfp_[\w.=-]{50,}",  # Typeform
    r"\bLTAI[A-Za-z0-9]{16,24}\b",  # Alibaba
    r"\bAKID[A-Za-z0-9]{32}\b",  # Tencent
    r"\bops_eyJ[\w-]{200,}|\bA3-[A-Z0-9]{6}-(?:[A-Z0-9]{5,6}-){4,5}[A-Z0-9]{5}\b",  # 1Password
    r"\bATBB[A-Za-z0-9]{32}\b",  # Bitbucket
    r"\bsb_secret_[\w-]{20,}",  # Supabase
    r"\bATCTT3[\w=-]{50,}",  # Bitbucket, of a repository
    r"\bnvapi-[\w-]{60,}",  # NVIDIA
    r"\bcsk-[a-z0-9]{40,}|\bcsk-[A-Za-z0-9]{48}\b",  # Cerebras
    r"\bjina_[A-Za-z0-9]{40,}",
    r"\btgp_v1_[\w-]{43}",  # Together
    r"\bsk_[0-9a-f]{48}\b",  # ElevenLabs
    r"\bre_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}\b",  # Resend
    r"\bpat-(?:na|eu|ap)\d-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",  # HubSpot
    r"\baccess-(?:sandbox|development|production)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",  # Plaid
    r"\baccess_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}",  # Braintree, PayPal
    r"\bFLWSECK(?:_TEST)?-[0-9a-zA-Z]{32}-X",  # Flutterwave
    r"\bduffel_(?:test|live)_[\w=-]{43}",
    r"\bfio-u-[\w=-]{64}",  # Frame.io
    r"\bshippo_(?:live|test)_[0-9a-f]{40}",
    r"\b(?:live|test)_[0-9a-f]{35}\b",  # Lob
    r"\b[A-Za-z0-9]{10}msh[A-Za-z0-9]{15}p1[A-Za-z0-9]{6}jsn[A-Za-z0-9]{12}\b",  # RapidAPI
    r"\bA{21}[A-Za-z0-9%]{70,}",  # Twitter
    r"\baio_[A-Za-z0-9]{28}\b",  # Adafruit
    r"\b[0-9a-f]{36}FFFFNRAL",  # New Relic, to send to
    r"\b[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}\b",  # Azure DevOps
    r"\bsecret_[A-Za-z0-9]{43}\b",  # Notion, before 2024
    r"\bEAAA[A-Za-z0-9+=_-]{60}\b|\bEAA[A-Z][A-Za-z0-9]{100,}",  # Square, Facebook
    r"\bdG9rO[jm][A-Za-z0-9+/]{50,}",  # Intercom
    r"\b[12]/\d{15,17}(?:/\d{15,17})?:[0-9a-f]{32}\b",  # Asana
    r"hooks\.zapier\.com/hooks/catch/\d+/\w{6,}",
    r"discord(?:app)?\.com/api/webhooks/\d{15,20}/[\w-]{60,}",
    r"webhook\.office\.com/webhookb2/[\w@/-]{60,}",  # Teams
    r"\bvc[piark]_[A-Za-z0-9]{24,}",  # Vercel
    r"\bnapi_[a-z0-9]{40,}",  # Neon
    r"\bcf(?:ut|at|k)_[A-Za-z0-9]{40,}",  # Cloudflare
    r"\b(?:glwt|glffct)-[\w-]{20,}|\bGR1348941[\w-]{20}",  # GitLab, of workspaces and to register runners
    r"\b_gitlab_session=[0-9a-f]{32}\b",
    r"\bxoxd-[\w%-]{60,}",  # Slack, of a browser
    r"\b[rs]k_org_(?:live|test)_[A-Za-z0-9]{24,}",  # Stripe, of an organisation
    r"\bpa-[\w-]{43}\b",  # Voyage
    r"\bsk-helicone-[a-z0-9-]{27,}",
    r"\blin_oauth_[0-9a-f]{64}",  # Linear
    r"\bNR(?:II|BR|RA|JS)-[\w-]{19,32}",  # New Relic
    r"\bIGQ[VW][\w-]{80,}",  # Instagram
    r"\brzp_(?:live|test)_[A-Za-z0-9]{14}\b",  # Razorpay
    r"\bAQE[A-Za-z0-9+/]{60,}={0,2}-[A-Za-z0-9+/=]{40,}-[\x21\x23-\x26\x28-\x2b\x2d-\x3b=?A-Z^_a-z{|}~]{16}",  # Adyen
    r"\bsha256~[\w-]{43}",  # OpenShift
    r"\bbootstrap-token=[a-z0-9]{6}\.[a-z0-9]{16}\b",  # Kubernetes
    r"\bK10[0-9a-f]{64}::\w{1,20}:[0-9a-f]{16,}",  # K3s
    r"\bpat\.[\w-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}\b",  # Harness
    r"\bsignkey-[a-z]{2,8}-[0-9a-f]{64}",  # Inngest
    r"\b(?:prod|dev|preview|project):[\w:-]{1,60}\|eyJ[\w=+/-]{40,}",  # Convex
    r"\bat_[A-Za-z0-9]{10}_[A-Za-z0-9]{100,}",  # HashiCorp Boundary
    r"\bory_(?:pat|apikey|st|lo|wat)_[A-Za-z0-9]{32}|\bory_(?:at|rt|ac)_[\w-]{40,}\.[\w-]{40,}",
    r"\bSCW[0-9A-Z]{17}\b",  # Scaleway
    r"\bcnvca[\w-]{40}",  # Canva
    r"\bbitpat_[A-Za-z0-9]{60,}",  # Bitrise
    r"\bsk-lf-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",  # Langfuse
    r"\bwandb_v1_[\w-]{40,}",
    r"\beyJrIjoi[\w+/=-]{40,}",  # Grafana, before 2023
    r"\bbk(?:ct|aj|at|r|pkg)_[A-Za-z0-9]{30,}",  # Buildkite, of agents
    r"\bSWMTKN-1-[a-z0-9-]{60,}",  # Docker Swarm
    r"\bAVNS_[\w-]{15,}",  # Aiven
    r"\bzpka_[A-Za-z0-9_]{32,}",  # Zuplo
    r"\bvtwn_[A-Za-z0-9]{26,}",  # Val Town
    r"\bddp_[A-Za-z0-9]{36,}",  # Deno Deploy
    r"\btss_[A-Za-z0-9]{40}\b",  # Thunderstore
    r"\bv[1-4]\.(?:local|public)\.[\w-]{40,}(?:\.[\w-]+)?|\bk[1-4]\.(?:local|secret)\.[\w-]{40,}",  # PASETO, PASERK
    r"\bAPI-[A-Z0-9]{26}\b",  # Octopus Deploy
    r"\bp8e-[A-Za-z0-9]{32}\b",  # Adobe
    r"\bdnkey-[\w=-]{26}-[\w=-]{52}",  # Defined Networking
    r"\bs-s4t2(?:ud|af)-[0-9a-f]{64}",  # Intra42
    r"\bsm_(?:aat|pat|sat)_[A-Za-z0-9]{16}",  # SettleMint
    r"\bPMAT-[0-9A-Z]{26}\b",  # Postman, of a collection
    r"\bwaka_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",  # WakaTime
    r"\bAPP_USR-\d{10,}-\d{6}-[0-9a-f]{32}-\d+",  # Mercado Pago
    r"\bpdl_(?:live|sdbx)_apikey_\w{40,}",  # Paddle
    r"\bessu_[A-Za-z0-9+/=]{60,}",  # Elastic
    r"\besecret_[a-z0-9]{24,}",  # Anyscale
    r"\bsess-[A-Za-z0-9]{40}\b",  # OpenAI, of a browser
    r"\b1000\.[0-9a-f]{32}\.[0-9a-f]{32}\b",  # Zoho
    r"\bBBFF-[A-Za-z0-9]{30,}",  # Ubidots
    r"\brootly_[0-9a-f]{64}",
    r"\bsamsara_api_[A-Za-z0-9]{30,}",
    r"\bapi_(?:live|sandbox)(?:_(?:eu|us|ca))?\.[\w-]{11}\.[\w-]{32}\b",  # Onfido
    r"\bhvr\.[\w-]{24,}",  # HashiCorp Vault, to recover
    r"\bAQVN[\w-]{35,38}\b|\by0_[\w-]{55,}",  # Yandex
    r"\bsntry[ai]_[\w+/=-]{40,}",  # Sentry, of an application and an integration
    r"\b[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b",  # MaxMind
)
