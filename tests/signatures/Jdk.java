// Signatures of ebMS 2.0 by javax.xml.crypto.dsig: another implementation than ours, in every part.
//
// java Jdk.java verify ENVELOPE CERTIFICATE [URI FILE]...   exit status 0: the signature is good
// java Jdk.java sign ENVELOPE KEYSTORE [URI FILE]...        the signed envelope on stdout
// KEYSTORE: PKCS 12 with one key, its password "password".

import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.xml.crypto.OctetStreamData;
import javax.xml.crypto.URIDereferencer;
import javax.xml.crypto.dsig.Reference;
import javax.xml.crypto.dsig.SignedInfo;
import javax.xml.crypto.dsig.Transform;
import javax.xml.crypto.dsig.XMLSignature;
import javax.xml.crypto.dsig.XMLSignatureFactory;
import javax.xml.crypto.dsig.dom.DOMSignContext;
import javax.xml.crypto.dsig.dom.DOMValidateContext;
import javax.xml.crypto.dsig.keyinfo.KeyInfoFactory;
import javax.xml.crypto.dsig.spec.C14NMethodParameterSpec;
import javax.xml.crypto.dsig.spec.TransformParameterSpec;
import javax.xml.crypto.dsig.spec.XPathFilterParameterSpec;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.transform.TransformerFactory;
import javax.xml.transform.dom.DOMSource;
import javax.xml.transform.stream.StreamResult;
import org.w3c.dom.Document;
import org.w3c.dom.Element;

public class Jdk {
    static final String SOAP = "http://schemas.xmlsoap.org/soap/envelope/";
    static final String C14N = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315";
    static final String SHA256 = "http://www.w3.org/2001/04/xmlenc#sha256";
    static final String RSA_SHA256 = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256";
    static final String NODES =
        "not(ancestor-or-self::node()[@s:actor=\"urn:oasis:names:tc:ebxml-msg:actor:nextMSH\"]"
            + "|ancestor-or-self::node()[@s:actor=\"http://schemas.xmlsoap.org/soap/actor/next\"])";

    public static void main(String[] args) throws Exception {
        DocumentBuilderFactory builders = DocumentBuilderFactory.newInstance();
        builders.setNamespaceAware(true);
        Document document = builders.newDocumentBuilder().parse(Path.of(args[1]).toFile());
        Map<String, byte[]> parts = new LinkedHashMap<>();
        for (int at = 3; at < args.length; at += 2) {
            parts.put(args[at], Files.readAllBytes(Path.of(args[at + 1])));
        }
        XMLSignatureFactory factory = XMLSignatureFactory.getInstance("DOM");
        URIDereferencer given = factory.getURIDereferencer();
        URIDereferencer dereferencer = (reference, context) -> {
            byte[] octets = parts.get(reference.getURI());
            return octets == null
                ? given.dereference(reference, context)
                : new OctetStreamData(new ByteArrayInputStream(octets));
        };
        if (args[0].equals("verify")) {
            verify(factory, document, Path.of(args[2]), dereferencer);
        } else {
            sign(factory, document, Path.of(args[2]), parts, dereferencer);
        }
    }

    static void verify(
        XMLSignatureFactory factory, Document document, Path certificate, URIDereferencer parts)
        throws Exception {
        X509Certificate trusted;
        try (InputStream pem = Files.newInputStream(certificate)) {
            CertificateFactory certificates = CertificateFactory.getInstance("X.509");
            trusted = (X509Certificate) certificates.generateCertificate(pem);
        }
        Element signature =
            (Element) document.getElementsByTagNameNS(XMLSignature.XMLNS, "Signature").item(0);
        DOMValidateContext context = new DOMValidateContext(trusted.getPublicKey(), signature);
        context.setURIDereferencer(parts);
        // It takes no SHA-1 by default: some of what we verify with it has some.
        context.setProperty("org.jcp.xml.dsig.secureValidation", false);
        boolean good = factory.unmarshalXMLSignature(context).validate(context);
        System.out.println(good ? "good" : "bad");
        System.exit(good ? 0 : 1);
    }

    static void sign(
        XMLSignatureFactory factory, Document document, Path store, Map<String, byte[]> parts,
        URIDereferencer dereferencer)
        throws Exception {
        KeyStore keys = KeyStore.getInstance("PKCS12");
        char[] password = "password".toCharArray();
        try (InputStream stored = Files.newInputStream(store)) {
            keys.load(stored, password);
        }
        String alias = keys.aliases().nextElement();
        Map<String, String> prefixes = new HashMap<>(Map.of("s", SOAP));
        List<Transform> transforms = List.of(
            factory.newTransform(Transform.ENVELOPED, (TransformParameterSpec) null),
            factory.newTransform(Transform.XPATH, new XPathFilterParameterSpec(NODES, prefixes)),
            factory.newTransform(C14N, (TransformParameterSpec) null));
        var sha256 = factory.newDigestMethod(SHA256, null);
        List<Reference> references = new ArrayList<>();
        references.add(factory.newReference("", sha256, transforms, null, null));
        for (String uri : parts.keySet()) {
            references.add(factory.newReference(uri, sha256));
        }
        SignedInfo info = factory.newSignedInfo(
            factory.newCanonicalizationMethod(C14N, (C14NMethodParameterSpec) null),
            factory.newSignatureMethod(RSA_SHA256, null),
            references);
        KeyInfoFactory named = factory.getKeyInfoFactory();
        var data = named.newX509Data(List.of(keys.getCertificate(alias)));
        Element header = (Element) document.getElementsByTagNameNS(SOAP, "Header").item(0);
        PrivateKey key = (PrivateKey) keys.getKey(alias, password);
        DOMSignContext context = new DOMSignContext(key, header);
        context.setDefaultNamespacePrefix("ds");
        context.setURIDereferencer(dereferencer);
        factory.newXMLSignature(info, named.newKeyInfo(List.of(data))).sign(context);
        TransformerFactory.newInstance().newTransformer()
            .transform(new DOMSource(document), new StreamResult(System.out));
    }
}
